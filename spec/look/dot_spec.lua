--- graph:dot: nodes by kernel, inputs and outputs, and why one node waits for another; read back by Graphviz.
local helper = require "spec.helper"
local rp = require "reprise"

helper.each_device(function(name)
  local dev, state, graph, text

  local function drawn(of)
    local file = helper.tmp() .. "/graph.dot"
    of:dot(file)
    return helper.read(file), file
  end

  lazy_setup(function()
    dev = rp.device(name)
    state = rp.zeros({ 1024 }, "f32", dev)
    local step = rp.capture(function(x)
      local a = x:clone() -- 1
      local b = a:to "f16" -- 2: uses what 1 wrote
      local c = state:to "f16" -- 3
      state:fill(1) -- 4: overwrites what 3 read
      local d = rp.zeros({ 1024 }, "f32", dev) -- 5: may lie where a lay
      return b, c, d
    end, { device = dev, name = 'a "b" \\' })
    step(rp.zeros({ 1024 }, "f32", dev))
    graph = step:graphs()[1]
    text = drawn(graph)
  end)

  describe("a drawn graph", function()
    it("has its nodes by kernel, its inputs and its outputs", function()
      for i, node in ipairs(graph:manifest()) do
        assert.truthy(text:find(('n%d [label="%d  %s"'):format(i, i, node.kernel), 1, true))
      end
      assert.truthy(text:find('in1 [label="input 1"', 1, true))
      assert.truthy(text:find("in1 -> n1;", 1, true))
      for i = 1, 3 do assert.truthy(text:find(('out%d [label="output %d"'):format(i, i), 1, true)) end
      assert.truthy(text:find("n2 -> out1;", 1, true))
      assert.truthy(text:find("n5 -> out3;", 1, true))
      assert.is_nil(text:find("subgraph", 1, true))
    end)

    it("says why one node waits for another", function()
      assert.truthy(text:find("n1 -> n2;", 1, true), text)
      assert.truthy(text:find("n3 -> n4 [style=dashed", 1, true), text)
      local reused
      for _, pair in ipairs(graph:manifest().edges) do
        local line = ("n%d -> n%d [style=dotted"):format(pair[1], pair[2])
        reused = reused or text:find(line, 1, true) ~= nil
      end
      assert.equal(graph.plan.peak < 4096 + 2048 + 2048 + 4096, reused)
    end)

    it("is what Graphviz reads", function()
      if helper.run "command -v dot" ~= 0 then pending "no Graphviz here: drawings are not read back" end
      local _, file = drawn(graph)
      local code, plain, err = helper.run("dot -Tplain " .. file)
      assert.same({ 0, "" }, { code, err })
      local nodes, edges = 0, 0
      for line in plain:gmatch "[^\n]+" do
        if line:find "^node" then nodes = nodes + 1 end
        if line:find "^edge" then edges = edges + 1 end
      end
      assert.equal(5 + 1 + 3, nodes)
      assert.equal(#graph:manifest().edges + 1 + 3, edges)
    end)

    it("says where it cannot be written", function()
      assert.error_matches(function() graph:dot "/nowhere/x.dot" end, "writing /nowhere/x.dot: No such file or directory")
      assert.error_matches(function() graph:dot() end, "bad argument #1 to 'dot'")
    end)
  end)
end)
