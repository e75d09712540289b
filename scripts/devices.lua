-- usage: reprise scripts/devices.lua (or reprise --devices)
-- One line a device that kernels can run on, best first; then why there is no GPU, if there is none.
local rp = require "reprise"

for _, device in ipairs(rp.devices()) do
  print(("%-8s %-12s %s"):format(device.name, device.arch, device.model))
end
local present, why = rp.has_cuda()
if not present then print("no GPU: " .. why) end
