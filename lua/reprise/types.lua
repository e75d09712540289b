---@meta reprise.core

-- What the raw binding offers, for editors and for the spec that compares this file with it. Never loaded.
-- The module `reprise` (init.lua) re-exports most of it with manners.

---@alias reprise.Dtype "f32"|"f16"|"bf16"|"i32"|"i64"|"u8"
---@alias reprise.Place reprise.Device|reprise.Pool|string|nil where a tensor lies; a name opens the device; nil: the default
---@alias reprise.Shape integer|integer[]
---@alias reprise.Nested number|table<integer, reprise.Nested>

---@class reprise.DeviceFacts
---@field name string "cpu", "cuda:0"
---@field model string
---@field arch string "x86-64-v3", "sm_90"
---@field units integer multiprocessors, or threads
---@field simt boolean warps have 32 lanes: a GPU, or a CPU that plays one (`REPRISE_SIMT=1`)
---@field memory integer bytes
---@field free integer bytes

---@class reprise.ProgramSpec
---@field file string? path of the source; exactly one of file and source
---@field source string?
---@field name string? for messages, with source
---@field define table<string, string|number|boolean>? `#define` lines
---@field device reprise.Device|string|nil

---@class reprise.CaptureOptions
---@field name string?
---@field outputs "shared"|"own"|"copy"|nil
---@field copy_outputs boolean? true is outputs = "copy"
---@field max_graphs integer? one a combination of input shapes; the least recently used leaves first
---@field parallel boolean? forks and joins instead of one chain
---@field warmup integer? eager runs before the first replay
---@field reserve table<integer, integer>? bytes of the slot of input i
---@field pool reprise.Pool?
---@field device reprise.Device|string|nil

---@class reprise.Figures
---@field allocated integer bytes
---@field reserved integer bytes
---@field peak_allocated integer bytes
---@field peak_reserved integer bytes
---@field device_used integer? bytes, as the driver says
---@field blocks integer?
---@field graphs integer?
---@field limit integer? bytes
---@field executables integer? bytes that the driver took for live graphs; nil where it cannot tell
---@field copied integer? bytes of graph inputs copied so far
---@field skipped integer? bytes of graph inputs that were in place already
---@field tensors reprise.Figures?
---@field slots reprise.Figures?
---@field scratch reprise.Figures?

---@class reprise.core
---@field version string
---@field file string the program, or core.so
---@field null lightuserdata JSON's null
local core = {}

--- Opens a device, or gives the handle that is open already. nil: REPRISE_DEVICE, else the best present.
---@param name string? "cpu", "cuda", "cuda:1"
---@return reprise.Device
function core.device(name) end

--- The devices present, best first.
---@return reprise.DeviceFacts[]
function core.devices() end

--- Is there a GPU?
---@return true? present
---@return string? why there is none
function core.has_cuda() end

--- A pool of its own. With a limit it raises before more bytes than that are reserved.
---@param options { device: reprise.Device|string|nil, limit: integer? }
---@return reprise.Pool
function core.pool(options) end

--- The memory planner by itself: packs lives into offsets aligned to 256 bytes, outputs at the top.
---@param lives { bytes: integer, first: integer, last: integer, output: boolean? }[] nodes, both included
---@param tries integer? placements of the local search
---@return integer[] offsets
---@return integer peak bytes
---@return integer lower_bound bytes, the largest sum alive at one node
function core.plan(lives, tries) end

--- Begins to record what happens in a pool: `rp.record_memory` and `rp.trace` are made of it.
---@param place reprise.Place
---@param timed boolean? kernels are timed, and graphs replayed node by node for it
---@return reprise.History
function core.history(place, timed) end

--- Words of host memory that kernels write (`publish`) and scripts read without waiting.
---@param place reprise.Place
---@param records integer? of the ring, 128 unless given
---@return reprise.Signal
function core.signal(place, records) end

--- A tensor with undefined contents.
---@param shape reprise.Shape
---@param dtype reprise.Dtype? default "f32"
---@param place reprise.Place
---@return reprise.Tensor
function core.empty(shape, dtype, place) end

--- A tensor of zeros.
---@param shape reprise.Shape
---@param dtype reprise.Dtype? default "f32"
---@param place reprise.Place
---@return reprise.Tensor
function core.zeros(shape, dtype, place) end

--- A tensor of one value.
---@param shape reprise.Shape
---@param value number
---@param dtype reprise.Dtype? default "f32"
---@param place reprise.Place
---@return reprise.Tensor
function core.full(shape, value, dtype, place) end

--- 0, 1, ... n - 1.
---@param n integer
---@param dtype reprise.Dtype? default "i32"
---@param place reprise.Place
---@return reprise.Tensor
function core.arange(n, dtype, place) end

--- A tensor from a number or nested tables; its shape is that of the tables.
---@param value reprise.Nested
---@param dtype reprise.Dtype? default "f32"
---@param place reprise.Place
---@return reprise.Tensor
function core.tensor(value, dtype, place) end

--- Compiles a kernel source, or takes it from the cache. Allowed during capture.
---@param spec reprise.ProgramSpec
---@return reprise.Program
function core.compile(spec) end

--- Compiles those of some sources that no folder has yet, side by side, so that `compile` finds them. What fails says
--- nothing here, but when it is compiled.
---@param device reprise.Device
---@param specs reprise.ProgramSpec[]
function core.compile_ahead(device, specs) end

--- Does this source lie compiled in a folder, so that `compile` needs no compiler?
---@param device reprise.Device
---@param spec reprise.ProgramSpec
---@return boolean
function core.is_compiled(device, spec) end

--- Compiles a source into a folder of prebuilt kernels; no device is opened.
---@param folder string
---@param kind "cpu"|"cuda"
---@param arch string
---@param spec reprise.ProgramSpec
function core.build_kernels(folder, kind, arch, spec) end

--- A scalar argument that may change between replays.
---@param type "f32"|"f64"|"i32"|"u32"|"i64"|"u64"|"u8"
---@param value number
---@return reprise.Param
function core.param(type, value) end

--- A function that is recorded at its first call with inputs of some shapes, and replayed at the others.
---@param fn fun(...: reprise.Tensor): reprise.Tensor?, ...
---@param options reprise.CaptureOptions?
---@return reprise.Step
function core.capture(fn, options) end

--- Notes the tensors made from now on; to be held in a <close> variable.
---@return reprise.Scope
function core.open_scope() end

--- Where kernels/ and prebuilt/ are looked for; with an argument, sets it.
---@param path string?
---@return string
function core.home(path) end

--- What was found on this machine of what a kind of device, or the kernel cache, needs: for `reprise --doctor`.
---@param part "cpu"|"cuda"|"cache"
---@return { name: string, value: string?, why: string? }[] facts `why`: why there is no value
function core.examine(part) end

--- What the kernel cache did in this process.
---@return { prebuilt: integer, hits: integer, compiled: integer, rebuilt: integer }
function core.cache_counts() end

--- Allocations of host memory not yet freed.
---@return integer
function core.memory_live() end

--- Makes a host allocation fail: after that many, the next one, once; negative: none. For specs.
---@param allocations integer
function core.memory_fail_after(allocations) end

--- Seconds of a clock that never goes back.
---@return number
function core.clock() end

--- The value of a JSON text. Integers stay integers, null is core.null.
---@param text string
---@return any
function core.json_decode(text) end

--- A value as JSON.
---@param value any
---@param keys string[]? names that come first in objects, in this order
---@return string
function core.json_encode(value, keys) end

--- A .safetensors file, mapped and checked.
---@param path string
---@return reprise.Safetensors
function core.safetensors(path) end

--- Writes tensors into one .safetensors file, in this order; it appears whole or not at all.
---@param path string
---@param list { [1]: string, [2]: reprise.Tensor }[] names and tensors
function core.safetensors_write(path, list) end

---@class reprise.Device
---@field name string
---@field model string
---@field arch string
---@field units integer
---@field memory integer bytes it has
---@field free integer bytes of them that nobody uses now
---@field pool reprise.Pool the default pool
---@field waits integer times the host waited for all work, or for bytes it asked for
---@field downloaded integer bytes of tensors that the host read
---@field closed boolean
---@field recording boolean a capture is open
local Device = {}

--- Waits until all work is done.
function Device:synchronize() end

--- Waits and closes: every later use of what belongs to the device raises.
function Device:close() end

---@class reprise.Pool
---@field device reprise.Device
local Pool = {}

--- Bytes by zone and in all.
---@return reprise.Figures
function Pool:figures() end

--- Mapped memory, run by run of each zone, with what lies in it.
---@return { zone: string, address: integer, bytes: integer, blocks: { address: integer, bytes: integer, taken: boolean }[] }[]
function Pool:segments() end

--- Writes what lies where, as a pickle that PyTorch's memory viewer reads (https://pytorch.org/memory_viz).
---@param file string
function Pool:snapshot(file) end

--- Waits, and gives back memory that nobody names.
---@return integer bytes
function Pool:trim() end

---@class reprise.Tensor
---@field shape integer[]
---@field dtype reprise.Dtype
---@field device reprise.Device
---@field rank integer
---@field bytes integer
---@field elements integer
---@field offset integer bytes from the beginning of its memory, which lies on 256
---@field packed boolean contiguous
---@field closed boolean
---@field [integer] number|reprise.Tensor a number for rank 1, else a view of a row; negatives count from the end
---@operator len: integer
local Tensor = {}

--- The values as nested tables.
---@return reprise.Nested
function Tensor:totable() end

--- The value of a tensor of one element.
---@return number
function Tensor:item() end

--- Same dtype, shape and values?
---@param other reprise.Tensor
---@return boolean
function Tensor:equal(other) end

--- Overwrites this tensor, converting.
---@param source reprise.Tensor of the same shape
---@return reprise.Tensor self
function Tensor:copy(source) end

--- Overwrites all elements.
---@param value number
---@return reprise.Tensor self
function Tensor:fill(value) end

--- A packed copy.
---@return reprise.Tensor
function Tensor:clone() end

--- In another dtype; a second handle when it is the same.
---@param dtype reprise.Dtype
---@return reprise.Tensor
function Tensor:to(dtype) end

--- The same elements in another shape; one dimension may be -1.
---@param shape reprise.Shape
---@return reprise.Tensor
function Tensor:view(shape) end

--- Dimensions of size 1 repeated.
---@param shape reprise.Shape
---@return reprise.Tensor
function Tensor:expand(shape) end

--- A part of one dimension, both ends included, negatives from the end, like string.sub.
---@param dim integer
---@param first integer
---@param last integer? default -1
---@return reprise.Tensor
function Tensor:slice(dim, first, last) end

--- Two dimensions exchanged.
---@param a integer
---@param b integer
---@return reprise.Tensor
function Tensor:transpose(a, b) end

--- Itself when it is packed, else a packed copy.
---@return reprise.Tensor
function Tensor:contiguous() end

--- Closes this handle; the memory goes back with its last.
function Tensor:close() end

---@class reprise.Program
---@field kernels string[] their names
---@field device reprise.Device
---@field [string] reprise.Kernel
local Program = {}

--- A kernel whose name a method has taken (`close`).
---@param name string
---@return reprise.Kernel
function Program:kernel(name) end

--- Closes this handle; kernels taken from it stay usable.
function Program:close() end

---@class reprise.Kernel
---@field name string
---@field signature string
---@field waits boolean
---@field device reprise.Device
---@overload fun(launch: { grid: reprise.Shape?, block: reprise.Shape?, shared: integer?, cluster: reprise.Shape?, cooperative: boolean?, [integer]: any })

---@class reprise.Param
---@field value number
local Param = {}

--- The value of the next launches and replays.
---@param value number
---@return reprise.Param self
function Param:set(value) end

---@class reprise.Step
---@overload fun(...: reprise.Tensor): reprise.Tensor?, ...
local Step = {}

--- Replays the graph of the last call, its inputs as the slots hold them, until the device sets the signal, or `max`.
--- ahead = 0: each step is waited for, exact; else so many replays are queued beyond the one that runs.
---@param options { max: integer, stop: reprise.Signal?, ahead: integer? }
---@return integer steps
function Step:run(options) end

--- The graphs, newest use first.
---@return reprise.Graph[]
function Step:graphs() end

--- Closes all graphs; the step cannot be called any more.
function Step:close() end

---@class reprise.Signal
---@field words reprise.Tensor i64 [1 + records]: word 0 the control word, then the ring; an argument for kernels
---@field epoch integer of the present run
---@field records integer
local Signal = {}

--- Starts a run.
---@return integer epoch that the kernels must be told
function Signal:reset() end

--- The newest step published in this run, from 1; 0: none.
---@return integer step
---@return boolean done
function Signal:step() end

--- A record of this run.
---@param index integer from 0
---@return integer? value nil while it is not there, or is there no more
function Signal:read(index) end

--- A record of this run, waited for.
---@param index integer from 0
---@return integer? value nil when the device is idle and it is not there
function Signal:wait(index) end

--- Gives the handle back.
function Signal:close() end

---@class reprise.History
local History = {}

--- Ends the recording; what was recorded stays.
function History:stop() end

--- What was recorded until now: figures of the pool whenever they changed, replays, timed launches, and every graph with
--- its plan and nodes, as columns of integers. Times are nanoseconds since it began.
---@return table
function History:report() end

--- Ends the recording and forgets it.
function History:close() end

---@class reprise.Graph
---@field name string
---@field copied integer bytes of inputs copied, of all replays
---@field skipped integer bytes of inputs that were in place already
---@field plan { peak: integer, lower_bound: integer } bytes
---@field nodes integer
---@field driver_bytes integer? what the driver took for the executable; it takes memory in large pieces, so most took none
---@field replays integer
---@field closed boolean
local Graph = {}

--- The nodes with their arguments and byte ranges; field `edges`: pairs of node numbers, what must run before what;
--- `outputs`: by output, the node that touches it last, and their `count`.
---@return table
function Graph:manifest() end

--- Writes the reduced graph in Graphviz' language.
---@param file string
function Graph:dot(file) end

--- Records `fn` for the same inputs, in place of what the graph did.
---@param fn fun(...: reprise.Tensor): reprise.Tensor?, ...
---@return "patched"|"rebuilt" patched: only values had changed
function Graph:update(fn) end

--- Makes the graph and its outputs unusable.
function Graph:close() end

---@class reprise.Scope
local Scope = {}

--- Takes tensors, also inside tables, out of the scope; returns its arguments.
---@param ... any
---@return any ...
function Scope:keep(...) end

---@class reprise.Safetensors
local Safetensors = {}

--- In the order of the file.
---@return string[]
function Safetensors:names() end

--- What the header says of a tensor; nil: no such tensor.
---@param name string
---@return { dtype: string, shape: integer[], bytes: integer }?
function Safetensors:info(name) end

--- Copies a tensor into a pool.
---@param name string
---@param place reprise.Place
---@return reprise.Tensor
function Safetensors:tensor(name, place) end

--- Are the bytes of two stored tensors equal?
---@param name string
---@param other reprise.Safetensors
---@param other_name string
---@return boolean
function Safetensors:same(name, other, other_name) end

--- Unmaps the file; tensors made from it stay.
function Safetensors:close() end

-- What generate, each and stream take: help.lua makes these lines of options.lua.

---@class reprise.GenerateOptions `false` unsets an option
---@field num_beams integer|false|nil beams a source; 1: no beam search; default: 1
---@field num_return_sequences integer|false|nil results a source: at most num_beams, any number of samples; default: 1
---@field max_new_tokens integer|false|nil most tokens of a result, without the prompt; default: max_length, else 20
---@field max_length integer|false|nil the same with the prompt; max_new_tokens wins
---@field min_new_tokens integer|false|nil no end before so many tokens, without the prompt
---@field min_length integer|false|nil the same with the prompt; min_new_tokens wins; default: 0
---@field length_penalty number|false|nil a score is the log-probability over tokens^this; > 0 favours long results; default: 1
---@field early_stopping boolean|"never"|nil when a beam search ends: true: with num_beams results; false: when better ones are unlikely; "never": when there can be none; default: false
---@field eos_token_id integer|integer[]|false|nil ids that end a result
---@field pad_token_id integer|false|nil what ended rows of a batch take; default: the first eos_token_id
---@field decoder_start_token_id integer|false|nil first token of the decoder; default: bos_token_id of the files
---@field decoder_input_ids integer[]|integer[][]|reprise.Tensor|false|nil tokens the result begins with, for all sources or a list a source
---@field repetition_penalty number|false|nil divides positive and multiplies negative scores of tokens already there; default: 1
---@field no_repeat_ngram_size integer|false|nil no sequence of so many tokens occurs twice; 0: any may; default: 0
---@field do_sample boolean|nil draw tokens instead of taking the most probable; default: false
---@field temperature number|false|nil scores are divided by this before drawing; default: 1
---@field top_k integer|false|nil draw from the so many most probable tokens; 0: from all; default: 50
---@field top_p number|false|nil draw from the fewest most probable tokens whose probabilities reach this; default: 1
---@field min_p number|false|nil draw from tokens at least this times as probable as the most probable
---@field seed integer|integer[]|false|nil of the random numbers, or a list with one a source; default: another one every time
---@field prefix string|false|nil put before sources that are text

return core
