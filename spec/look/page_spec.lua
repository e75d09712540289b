--- rp.record_memory and rp.trace: when files are written and what is in them; the page in a browser, light and dark.
local browser = require "spec.support.browser"
local helper = require "spec.helper"
local rp = require "reprise"

local function data_of(page)
  return rp.json_decode((page:match '<script id="data" type="application/json">(.-)</script>'))
end

helper.each_device(function(name)
  local dev = rp.device(name)

  local function work(pool, times)
    local step = rp.capture(function(x)
      local y = x:clone()
      y:fill(2)
      return y:clone()
    end, { pool = pool, name = "<b>copy</b></script><!--" })
    for n = 1, times or 3 do step(rp.full({ 256 * (n % 2 + 1) }, n, "f32", pool)) end
    return step
  end

  describe("a recording", function()
    it("is written when its handle is closed, once", function()
      local file = helper.tmp() .. "/memory.html"
      local pool = rp.pool { device = dev }
      local recording = rp.record_memory(file, pool)
      assert.equal("", helper.read(file))
      work(pool)
      assert.matches("^recording to .*: history of the pool of " .. name, tostring(recording))
      recording:close()
      assert.matches("^recording to .*, closed$", tostring(recording))
      local page = helper.read(file)
      recording:close()
      local data = data_of(page)
      assert.same({ 3, 2, false }, { data.replays, #data.graphs, data.timed })
      assert.equal("<b>copy</b></script><!--", data.names[data.graphs[1].name])
      assert.equal(rp.version, data.version)
    end)

    it("ends when its variable does, when the next one of the pool begins, and when the script does", function()
      local folder = helper.tmp()
      local pool = rp.pool { device = dev }
      do
        local recording <close> = rp.record_memory(folder .. "/scope.html", pool)
        assert.is_false(recording.closed)
      end
      assert.matches("^<!doctype html>", helper.read(folder .. "/scope.html"))
      local first = rp.record_memory(folder .. "/first.html", pool)
      local second = rp.trace(folder .. "/second.html", pool)
      assert.is_true(first.closed)
      assert.matches("^<!doctype html>", helper.read(folder .. "/first.html"))
      second:close()
      local script = folder .. "/script.lua"
      for _, last in ipairs { "", "error('stop')", "os.exit(0, true)" } do
        helper.write(script, ("local rp = require 'reprise'\nrp.trace('%s/end.html', '%s')\nrp.zeros({ 8 }, 'f32', '%s')\n%s"):format(
          folder, name, name, last))
        helper.run(helper.quote(helper.program()) .. " " .. script)
        assert.is_true(#data_of(helper.read(folder .. "/end.html")).slices.from > 0, last)
        os.remove(folder .. "/end.html")
      end
    end)

    it("refuses what it cannot do before it begins", function()
      assert.error_matches(function() rp.record_memory() end, "bad argument #1 to 'record_memory' %(string expected, got nil%)")
      assert.error_matches(function() rp.trace("x.svg") end, "trace: x.svg: a name that ends in .html %(a page%) or .json %(a timeline for Perfetto%) is expected")
      assert.error_matches(function() rp.trace("/nowhere/x.html", dev) end, "recording: writing /nowhere/x.html: No such file or directory")
      local file = helper.tmp() .. "/x.html"
      assert.error_matches(function() rp.trace(file, 5) end, "bad argument #2 to 'trace' %(reprise.Device or reprise.Pool expected, got number%)")
      assert.error_matches(function() rp.trace(file, "gpu") end, "opening device \"gpu\"")
    end)
  end)

  describe("a page", function()
    local folder, file, pages = nil, nil, 0
    lazy_setup(function()
      folder = helper.tmp()
      file = folder .. "/page.html"
      local model = rp.t5.load("scripts/models/g2p", { device = dev })
      local recording = rp.trace(file, dev)
      model:generate("knowledge", { num_beams = 5 })
      for _ = 1, 5000 do rp.empty({ 256 }, "f32", dev):close() end
      model:generate({ "bee", "motivate" })
      work(dev, 12)
      recording:close()
    end)

    -- The page with one more script at its end.
    local function with(script)
      pages = pages + 1
      local path = ("%s/page%d.html"):format(folder, pages)
      local page = helper.read(file)
      local last = select(2, page:find(".*</script>"))
      helper.write(path, page:sub(1, last) .. "<script>" .. script .. "</script>" .. page:sub(last + 1))
      return path
    end

    it("asks nothing of a network", function()
      local page = helper.read(file)
      assert.matches("Content%-Security%-Policy\"%s+content=\"default%-src 'none'; style%-src 'unsafe%-inline'; script%-src 'unsafe%-inline'\"", page)
      local frame = page:gsub('<script id="data".-</script>', "")
      for _, sign in ipairs { "https?:", "@import", "url%(", " src=", " href=", "fetch%(", "XMLHttpRequest", "import%(" } do
        assert.is_nil(frame:find(sign), sign)
      end
    end)

    it("draws 10,000 events, light and dark", function()
      browser.needed()
      assert.is_true(#data_of(helper.read(file)).moments.at > 10000)
      local script = [[
        const ctx = $("timeline").getContext("2d"), seen = new Set();
        const pixels = ctx.getImageData(0, 0, $("timeline").width, $("timeline").height).data;
        for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
        const root = document.documentElement;
        root.dataset.colours = seen.size;
        root.dataset.dark = matchMedia("(prefers-color-scheme: dark)").matches;
        root.dataset.paper = getComputedStyle(document.body).backgroundColor;
        root.dataset.tall = $("plan").clientHeight;]]
      local page = with(script)
      for dark, paper in pairs { [false] = "rgb(252, 252, 250)", [true] = "rgb(21, 23, 26)" } do
        local shown = browser.open(page, { dark = dark })
        assert.is_nil(shown:match 'data%-error="([^"]*)"')
        local moments, spans, slices, graphs = shown:match 'data%-ready="(%d+) moments, (%d+) spans, (%d+) slices, (%d+) graphs"'
        assert.is_true(tonumber(moments) > 10000, moments)
        assert.is_true(tonumber(spans) > 20 and tonumber(slices) > 500, spans)
        assert.equal("4", graphs)
        assert.equal(tostring(dark), shown:match 'data%-dark="(%l+)"')
        assert.equal(paper, shown:match 'data%-paper="([^"]*)"')
        assert.is_true(tonumber(shown:match 'data%-colours="(%d+)"') > 10)
        assert.is_true(tonumber(shown:match 'data%-tall="(%d+)"') > 400)
      end
    end)

    it("names what lies under the pointer, as text", function()
      browser.needed()
      local shown = browser.open(with [[
        function at(id, x, y) {
          const box = $(id).getBoundingClientRect();
          $(id).dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
          return $("tip").innerText;
        }
        const root = document.documentElement, wide = $("plan").clientWidth;
        for (let y = 30; y < 320 && !root.dataset.life?.startsWith("temporary"); y += 10) root.dataset.life = at("plan", 95, y);
        root.dataset.node = at("plan", wide - 20, 400);
        for (let x = wide - 20; x > 100 && !root.dataset.time?.includes("replay of"); x--) root.dataset.time = at("timeline", x, 30);
        choose(data.graphs.at(-1));
        root.dataset.list = $("list").innerText;
        root.dataset.bold = document.querySelectorAll("#list b, #plan b, #costs b").length;
        root.dataset.bars = $("bars").innerText;
        root.dataset.costs = $("costs").innerText;]])
      assert.is_nil(shown:match 'data%-error="([^"]*)"')
      local function field(key) return shown:match("data%-" .. key .. '="([^"]*)"') end
      assert.matches("^temporary of embed.*at offset.*node 1 %(embed%) to node %d+", field "life")
      assert.matches("^node %d+: .*reads .*, writes .*typically, .* at best, of %d+ replays", field "node")
      assert.matches("^after .*tensors .* of .*slots .*scratch .*replay of ", field "time")
      assert.matches("<b>copy</b></script><!%-%-", (field("list"):gsub("&lt;", "<"):gsub("&gt;", ">")))
      assert.equal("0", field "bold")
      assert.matches("each tensor apart.*each graph planned, apart.*in this pool", field "bars")
      assert.matches("copy_bytes\t2\t.*KiB", field "costs")
      assert.matches("fill\t1\t.*0 bytes", field "costs")
    end)

    it("zooms and moves", function()
      browser.needed()
      local shown = browser.open(with [==[
        const canvas = $("timeline"), box = canvas.getBoundingClientRect(), root = document.documentElement;
        const look = () => canvas.toDataURL().length + ":" + canvas.toDataURL().slice(-4000, -3900);
        const looks = [look()];
        canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + 500, clientY: box.top + 40, deltaY: -900 }));
        looks.push(look());
        canvas.dispatchEvent(new MouseEvent("mousedown", { clientX: box.left + 500, clientY: box.top + 40 }));
        canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + 300, clientY: box.top + 40 }));
        dispatchEvent(new MouseEvent("mouseup"));
        looks.push(look());
        canvas.dispatchEvent(new MouseEvent("dblclick"));
        canvas.dispatchEvent(new MouseEvent("mouseleave"));
        looks.push(look());
        root.dataset.differ = [looks[0] !== looks[1], looks[1] !== looks[2], looks[0] === looks[3]].join();]==])
      assert.is_nil(shown:match 'data%-error="([^"]*)"')
      assert.equal("true,true,true", shown:match 'data%-differ="([^"]*)"')
    end)

    it("says so where no graph was replayed, and where nothing was timed", function()
      browser.needed()
      local quiet, untimed = folder .. "/quiet.html", folder .. "/untimed.html"
      local pool = rp.pool { device = dev }
      rp.record_memory(quiet, pool):close()
      local recording = rp.record_memory(untimed, pool)
      work(pool)
      recording:close()
      local shown = browser.open(quiet)
      assert.is_nil(shown:match 'data%-error="([^"]*)"')
      assert.matches("No graph was captured or replayed while this was recorded", shown)
      shown = browser.open(untimed)
      assert.is_nil(shown:match 'data%-error="([^"]*)"')
      assert.matches("Times were not recorded: rp.trace does", shown)
    end)
  end)

  describe("a timeline", function()
    it("has slices inside slices, counters and instants, in microseconds", function()
      local file = helper.tmp() .. "/trace.json"
      local pool = rp.pool { device = dev }
      local recording = rp.trace(file, pool)
      work(pool, 4)
      recording:close()
      local trace = rp.json_decode(helper.read(file))
      local by = {}
      for _, event in ipairs(trace.traceEvents) do
        assert.equal(1, event.pid)
        local key = event.ph .. (event.cat or "")
        by[key] = by[key] or {}
        table.insert(by[key], event)
      end
      assert.matches("^" .. name .. " %(", by.M[1].args.name)
      assert.same({ 4, 12, 2 }, { #by.Xreplay, #by.Xnode, #by.i })
      for i, node in ipairs(by.Xnode) do
        local replay = by.Xreplay[(i - 1) // 3 + 1]
        assert.is_true(node.ts >= replay.ts - 0.01 and node.ts + node.dur <= replay.ts + replay.dur + 0.01)
        assert.equal((i - 1) % 3 + 1, node.args.node)
      end
      assert.equal("fill", by.Xnode[2].name)
      assert.equal("pool: allocated bytes", by.C[1].name)
      assert.is_true(by.C[#by.C].args.slots >= 2048)
      assert.equal(3, by.Xreplay[1].args.nodes)
    end)
  end)
end)
