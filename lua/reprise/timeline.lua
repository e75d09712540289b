-- timeline.lua - a history as a timeline that opens in Perfetto (https://ui.perfetto.dev) and in chrome://tracing:
-- replays and the kernels inside them as slices, the pool's zones as counters, captures as instants.
-- Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

local core = require "reprise.core"

local PROCESS, WORK = 1, 1 -- there is one process with one track of slices

local function microseconds(ns) return ns / 1000 end

local function name_of(report, index) return index > 0 and report.names[index] or nil end

local function named(kind, thread, text)
  return { ph = "M", name = kind, pid = PROCESS, tid = thread, args = { name = text } }
end

local function slice(name, kind, from, to, args)
  return {
    ph = "X", name = name, cat = kind, pid = PROCESS, tid = WORK, ts = microseconds(from),
    dur = microseconds(to - from), args = args,
  }
end

local function add_replays(events, report)
  local s = report.spans
  for i, from in ipairs(s.from) do
    local graph = report.graphs[s.graph[i]]
    local name = graph and name_of(report, graph.name) or "several graphs"
    events[#events + 1] = slice(name, "replay", from, s.to[i], {
      graph = s.graph[i], replays = s.replays[i], nodes = graph and graph.node_count, plan_bytes = graph and graph.peak,
    })
  end
end

local function add_kernels(events, report)
  local s = report.slices
  for i, from in ipairs(s.from) do
    local graph, node = report.graphs[s.graph[i]], s.node[i]
    local nodes, args = graph and graph.nodes, nil
    if nodes then
      args = {
        node = node, where = name_of(report, nodes.where[node]), reads = nodes.reads[node], writes = nodes.writes[node],
        blocks = nodes.blocks[node],
      }
    end
    events[#events + 1] = slice(name_of(report, s.name[i]), graph and "node" or "launch", from, s.to[i], args)
  end
end

local function add_pool(events, report)
  local moments = report.moments
  for i, at in ipairs(moments.at) do
    for _, kind in ipairs { "", "reserved_" } do
      events[#events + 1] = {
        ph = "C", name = kind == "" and "pool: allocated bytes" or "pool: reserved bytes", pid = PROCESS,
        ts = microseconds(at), args = {
          tensors = moments[kind .. "tensors"][i], slots = moments[kind .. "slots"][i],
          scratch = moments[kind .. "scratch"][i],
        },
      }
    end
  end
end

local function add_captures(events, report)
  for i, graph in ipairs(report.graphs) do
    events[#events + 1] = {
      ph = "i", s = "p", name = "captured " .. name_of(report, graph.name), pid = PROCESS, tid = WORK,
      ts = microseconds(graph.made), args = { graph = i, nodes = graph.node_count, plan_bytes = graph.peak },
    }
  end
end

---@param report table see reprise.History:report
---@return string
return function(report)
  local events = {
    named("process_name", 0, ("%s (%s)"):format(report.device, report.model)), named("thread_name", WORK, "launches"),
  }
  add_captures(events, report)
  add_replays(events, report)
  add_kernels(events, report)
  add_pool(events, report)
  return core.json_encode({ displayTimeUnit = "ns", traceEvents = events })
end
