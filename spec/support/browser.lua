--- A headless browser for pages: what they look like after their scripts ran. Chromium, where it is found.
local helper = require "spec.helper"

local m = {}

local found

--- Its command, or nil.
---@return string?
function m.find()
  if found == nil then
    found = false
    for _, name in ipairs { "chromium", "chromium-browser", "google-chrome" } do
      if not found and os.execute("command -v " .. name .. " >/dev/null 2>&1") then found = name end
    end
  end
  return found or nil
end

--- Marks the test that runs as pending where there is none.
function m.needed()
  if not m.find() then helper.pending "no chromium here: pages are not opened" end
end

local function run(file, how, flags)
  local profile = helper.tmp()
  local command = ("HOME=%s timeout 120 %s --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=%s/p "
    .. "--window-size=%s --blink-settings=preferredColorScheme=%d %s %s"):format(profile, m.find(), profile,
    how.window or "1200,1400", how.dark and 0 or 1, flags, helper.quote("file://" .. file))
  local code, out, err = helper.run(command)
  assert(code == 0, err)
  return out
end

--- The page's elements, as HTML, after it was opened.
---@param file string absolute
---@param how { dark: boolean? }?
---@return string
function m.open(file, how) return run(file, how or {}, "--virtual-time-budget=3000 --dump-dom") end

--- Writes what it looks like.
---@param file string absolute
---@param image string path of a .png
---@param how { dark: boolean?, window: string? }?
function m.photograph(file, image, how) run(file, how or {}, "--screenshot=" .. helper.quote(image)) end

return m
