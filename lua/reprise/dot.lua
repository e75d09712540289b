-- dot.lua - graph:dot(file): a graph in Graphviz' language (https://graphviz.org/doc/info/lang.html), reduced: who has
-- to wait for whom, and why.
--
--   solid    data: the later node uses what the earlier one wrote
--   dashed   order: the later node overwrites what the earlier one reads
--   dotted   reuse: another tensor lies where the earlier node's tensor lay

local forms = require "reprise.forms"
local raise = require "reprise.raise"

local HEAD = [[
  rankdir=TB; nodesep=0.25; ranksep=0.3; labelloc=b; fontname="Helvetica"; fontsize=11;
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#5f6670", fontname="Helvetica", fontsize=11];
  edge [color="#3b4048", arrowsize=0.7, fontname="Helvetica", fontsize=9];
]]
local LEGEND = "solid: data; dashed: overwritten after it was read; dotted: memory used again"

local STYLES = {
  data = "", order = ' [style=dashed, color="#8b929c"]', reuse = ' [style=dotted, penwidth=1.6, color="#c77a1e"]',
}
local FILLS = { launch = "#ffffff", copy = "#ecebe6", fill = "#ecebe6" }

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

-- ---- why one node waits for another

local RANK = { data = 3, order = 2, reuse = 1 }

local function reason(earlier, later)
  if not (earlier.from and later.from) or earlier.to <= later.from or later.to <= earlier.from then return end
  if earlier.memory ~= later.memory then return "reuse" end
  return earlier.access == "update" and "data" or "order"
end

-- The strongest of all reasons between their arguments that reach the same bytes.
local function kind_of(earlier, later)
  local best
  for _, a in ipairs(earlier.args) do
    for _, b in ipairs(later.args) do
      local kind = reason(a, b)
      if kind and (not best or RANK[kind] > RANK[best]) then best = kind end
    end
  end
  return best or "order"
end

-- ---- lines

local ACCESS = { read = "read", update = "written" }

-- What a node is given, for the pointer that rests on it.
local function tip(node)
  local lines, numbers = { node.where ~= "" and node.where or nil }, {}
  for _, arg in ipairs(node.args) do
    if arg.value then
      numbers[#numbers + 1] = ("%s = %s"):format(arg.name, arg.value)
    elseif arg.zone then -- else a null pointer
      local bytes = forms.size(arg.to - arg.from)
      lines[#lines + 1] = ("%s: %s, %s of %s"):format(arg.name, ACCESS[arg.access], bytes, arg.zone)
    end
  end
  lines[#lines + 1] = #numbers > 0 and table.concat(numbers, ", ") or nil
  return table.concat(lines, "\n")
end

local function add_node(out, node, i)
  out[#out + 1] = ("  n%d [label=%s, fillcolor=%q, tooltip=%s];"):format(i, quoted(("%d  %s"):format(i, node.kernel)),
    FILLS[node.kind], quoted(tip(node)))
end

-- Ellipses for what comes from outside with every replay, and for what is handed out.
local function add_ends(out, manifest)
  local drawn = {}
  local function once(line)
    if not drawn[line] then out[#out + 1] = line end
    drawn[line] = true
  end
  local function ellipse(id, text) once(('  %s [label="%s", shape=ellipse, fillcolor="#e3eef5"];'):format(id, text)) end
  for i, node in ipairs(manifest) do
    for _, arg in ipairs(node.args) do
      if arg.input then
        ellipse("in" .. arg.input, "input " .. arg.input)
        once(("  in%d -> n%d;"):format(arg.input, i))
      end
    end
  end
  for output = 1, manifest.outputs.count do
    local last = manifest.outputs[output]
    if last then
      ellipse("out" .. output, "output " .. output)
      once(("  n%d -> out%d;"):format(last, output))
    end
  end
end

local function text_of(graph)
  local manifest = graph:manifest()
  local title = quoted(tostring(graph) .. "\n" .. LEGEND)
  local out = { "digraph " .. quoted(graph.name) .. " {", HEAD .. "  label=" .. title .. ";" }
  for i, node in ipairs(manifest) do add_node(out, node, i) end
  add_ends(out, manifest)
  for _, pair in ipairs(manifest.edges) do
    local from, to = pair[1], pair[2]
    out[#out + 1] = ("  n%d -> n%d%s;"):format(from, to, STYLES[kind_of(manifest[from], manifest[to])])
  end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end

---@param graph reprise.Graph
---@param file string
return function(graph, file)
  local text = text_of(graph)
  local handle, why = io.open(file, "wb")
  if not handle then return raise("writing %s", why) end
  local done, fault = handle:write(text)
  local closed, late = handle:close()
  if not done or not closed then raise("writing %s: %s", file, fault or late) end
end
