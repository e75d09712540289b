--- What `reprise --test` prints, as a busted output handler: one line a file, then what is pending and why, then each
-- failure with its place, and as the very last line `N passed, N failed`. Errors count as failed.

local busted = require "busted"
local suite = require "reprise.suite"

local function place(item)
  local trace = item.element and item.element.trace or item.trace
  if not trace or not trace.short_src then return "" end
  return ("%s:%d: "):format(trace.short_src, trace.currentline or 0)
end

local function text(message)
  if message == nil then return "no message" end
  return type(message) == "string" and message or require("pl.pretty").write(message)
end

local function indent(lines)
  return "  " .. lines:gsub("\n", "\n  ")
end

--- busted puts the place before a reason, which would make each of them unlike the others.
local function reason_of(item)
  return item.message and text(item.message):gsub("^[^\n]-:%d+: ", "") or "marked as pending"
end

--- Groups by reason, in order of first appearance.
local function print_pending(list)
  local reasons, order = {}, {}
  for _, item in ipairs(list) do
    local reason = reason_of(item)
    if not reasons[reason] then
      reasons[reason] = {}
      order[#order + 1] = reason
    end
    table.insert(reasons[reason], place(item) .. item.name)
  end
  for _, reason in ipairs(order) do
    print(("\npending (%d): %s\n%s"):format(#reasons[reason], reason, indent(table.concat(reasons[reason], "\n"))))
  end
end

local function print_failures(word, list, verbose)
  for _, item in ipairs(list) do
    print(("\n%s: %s%s\n%s"):format(word, place(item), item.name or "", indent(text(item.message))))
    local trace = verbose and item.trace and item.trace.traceback
    if trace then print(indent(trace)) end
  end
end

return function(options)
  local handler = require "busted.outputHandlers.base"()
  local counts, started -- of the file that runs

  local function file_start()
    counts, started = { success = 0, failure = 0, pending = 0, error = 0 }, busted.monotime()
    return nil, true
  end

  local function test_end(_, _, status)
    counts[status] = (counts[status] or 0) + 1
    return nil, true
  end

  local function file_end(file)
    local failed = counts.failure + counts.error
    local line = ("%-44s %4d passed"):format(file.name, counts.success)
    if failed > 0 then line = line .. (", %d failed"):format(failed) end
    if counts.pending > 0 then line = line .. (", %d pending"):format(counts.pending) end
    print(("%s  (%.1f s)"):format(line, busted.monotime() - started))
    io.stdout:flush()
    collectgarbage()
    return nil, true
  end

  local function finish()
    print_pending(handler.pendings)
    print_failures("FAILED", handler.failures, options.verbose)
    print_failures("ERROR", handler.errors, options.verbose)
    suite.passed, suite.failed = handler.successesCount, handler.failuresCount + handler.errorsCount
    print(("\n%d passed, %d failed"):format(suite.passed, suite.failed))
    io.stdout:flush()
    return nil, true
  end

  busted.subscribe({ "file", "start" }, file_start)
  busted.subscribe({ "test", "end" }, test_end, { predicate = handler.cancelOnPending })
  busted.subscribe({ "file", "end" }, file_end)
  busted.subscribe({ "exit" }, finish)
  return handler
end
