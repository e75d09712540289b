-- sheet.lua - the rows of scripts/bench.lua as a table and as JSON, and what others measured beside them.

local core = require "reprise.core"

local m = {}

-- ---- peers

local SAME = { g2p = "demo" } -- a peer's name for a shape

--- Reads JSON lines { mode, shape, beams, us_per_token, ... } of another program; lines with an `error` are left out.
---@param path string
---@return table[]? peers
---@return string? why there are none
function m.read_peers(path)
  local file, why = io.open(path)
  if not file then return nil, why end
  local peers = {}
  for line in file:lines() do
    local done, peer = pcall(core.json_decode, line, path)
    if not done or type(peer) ~= "table" or not (peer.mode and peer.shape) then
      file:close()
      return nil, ("%s: a line is no JSON object with mode and shape: %s"):format(path, line)
    end
    if peer.us_per_token then peers[#peers + 1] = peer end
  end
  file:close()
  return peers
end

--- Those that did the same work as a row.
---@param peers table[]
---@param row table
---@return table[]
function m.peers_of(peers, row)
  local list = {}
  for _, peer in ipairs(peers) do
    local same = (SAME[peer.shape] or peer.shape) == row.shape and peer.beams == row.beams
    if same and peer.src == row.source and peer.new == row.new then
      list[#list + 1] = { mode = peer.mode, us = peer.us_per_token, ratio = row.us and peer.us_per_token / row.us }
    end
  end
  return list
end

-- ---- one row

local NAMES = {
  "shape", "beams", "source", "new", "us", "us_low", "us_high", "eager_us", "read_us", "chain_us", "ratio",
}

--- A row as one line of JSON.
---@param row table
---@return string
function m.json(row) return core.json_encode(row, NAMES) end

local function mb(bytes) return bytes and bytes / 1e6 end

-- Head, width, format and value of each column.
local COLUMNS = {
  { "shape", "%-6s", function(r) return r.shape end },
  { "beams", "%5d", function(r) return r.beams end },
  { "us/token", "%9.1f", function(r) return r.us end },
  { "+-%", "%4.0f", function(r) return (r.us_high - r.us_low) / 2 / r.us * 100 end },
  { "eager", "%9.1f", function(r) return r.eager_us end },
  { "read MB", "%8.1f", function(r) return mb(r.bytes) end },
  { "read us", "%9.1f", function(r) return r.read_us end },
  { "chain us", "%8.1f", function(r) return r.chain_us end },
  { "ratio", "%5.2f", function(r) return r.ratio end },
  { "nodes", "%5d", function(r) return r.nodes end },
  { "host us", "%7.2f", function(r) return r.host_us end },
  { "capture ms", "%10.2f", function(r) return r.capture_ms end },
  { "load ms", "%7.0f", function(r) return r.load_ms end },
  { "warm ms", "%7.0f", function(r) return r.warm_ms end },
  { "cold ms", "%7.0f", function(r) return r.cold_ms end },
  { "state MB", "%8.1f", function(r) return mb(r.memory) end },
  { "held MB", "%8.1f", function(r) return mb(r.reserved) end },
}

local function width_of(format) return format:match "%%(%-?%d+)" end

local function line(cell)
  local cells = {}
  for i, column in ipairs(COLUMNS) do cells[i] = cell(column) end
  return table.concat(cells, " ")
end

--- What is measured, and the heads of the columns.
---@param row table facts that all rows share
---@param options table of the script
function m.title(row, options)
  local threads = row.threads and (", %d thread%s"):format(row.threads, row.threads == 1 and "" or "s") or ""
  print(("%s (%s%s): %s weights, %s caches, source %d, new %d, median of %d"):format(
    row.device, row.model, threads, row.dtype, row.kv, row.source, row.new, row.runs))
  if options.nodes then return end
  print "read: the same bytes only read; chain: as many empty kernels; ratio: us/token to the larger of the two"
  print(line(function(column) return ("%" .. width_of(column[2]) .. "s"):format(column[1]) end))
end

--- Prints a row, and its peers below it.
---@param row table
function m.row(row)
  print(line(function(column)
    local value = column[3](row)
    return value and column[2]:format(value) or ("%" .. width_of(column[2]) .. "s"):format "-"
  end))
  for _, peer in ipairs(row.peers) do
    print(("       %-26s %9.1f us/token, %.1f times as long"):format(peer.mode, peer.us, peer.ratio))
  end
end

-- ---- nodes

-- Nodes of one kernel over equally large matrices, together; in the order in which they first come.
local function groups(nodes)
  local list, found = {}, {}
  for _, node in ipairs(nodes) do
    local key = node.kernel .. " " .. node.bytes
    local group = found[key]
    if not group then
      group = { kernel = node.kernel, bytes = node.bytes, us = 0, count = 0 }
      found[key], list[#list + 1] = group, group
    end
    group.us, group.count = group.us + node.us, group.count + 1
  end
  return list
end

--- Prints the nodes of a row, those of one kind in one line.
---@param row table
function m.nodes(row)
  local sum = 0
  for _, node in ipairs(row.nodes) do sum = sum + node.us end
  print(("\n%s, beams: %d: %d nodes, %.1f us in all"):format(row.shape, row.beams, #row.nodes, sum))
  print "kernel          nodes  us each   us all     %  matrix MB  GB/s"
  for _, g in ipairs(groups(row.nodes)) do
    local rate = g.bytes > 0 and ("%9.2f %6.1f"):format(mb(g.bytes), g.bytes * g.count / g.us / 1e3) or ""
    print(("%-15s %5d %8.2f %8.1f %5.1f  %s"):format(g.kernel, g.count, g.us / g.count, g.us, g.us / sum * 100, rate))
  end
end

return m
