// timeline.js - a lane a zone of the pool, and what was replayed and launched meanwhile, over one axis.

const timeline = (() => {
  const LEFT = 92, RIGHT = 14, LANE = 84, EMPTY = 16, GAP = 18, STRIP = 16, AXIS = 24;
  const { moments, spans, slices } = data;
  const strips = [
    { title: "replays", of: spans, colour: (i) => graphColour(spans.graph[i]) },
    { title: "kernels", of: slices, colour: (i) => kernelColour(slices.name[i]) },
  ].filter(({ of }) => of.from.length);
  const view = { from: 0, to: Math.max(1, data.duration) };
  let width = 0, cursor = null, dragged = null;

  const x = (at) => LEFT + (at - view.from) / (view.to - view.from) * (width - LEFT - RIGHT);
  const at = (px) => view.from + (px - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);

  // Indices of the moments in view, with the one that holds when it begins.
  function visible() {
    return [Math.max(0, lastAtMost(moments.at, view.from)), Math.max(0, lastAtMost(moments.at, view.to))];
  }

  function steps(ctx, values, top, bottom, y) {
    const [first, last] = visible();
    ctx.beginPath();
    ctx.moveTo(Math.max(LEFT, x(moments.at[first])), bottom);
    for (let i = first; i <= last; i++) {
      const next = i < last ? moments.at[i + 1] : Math.min(view.to, data.duration);
      ctx.lineTo(Math.max(LEFT, x(moments.at[i])), y(values[i]));
      ctx.lineTo(x(next), y(values[i]));
    }
  }

  function highest(values) {
    const [first, last] = visible();
    let best = first;
    for (let i = first; i <= last; i++) if (values[i] > values[best]) best = i;
    return best;
  }

  function lane(ctx, zone, top) {
    const used = moments[zone], asked = moments[`reserved_${zone}`];
    const bottom = top + LANE, peak = highest(used);
    const most = Math.max(1, used[peak] * 1.18), y = (bytes) => bottom - bytes / most * LANE;
    line(ctx, LEFT, bottom + 0.5, width - RIGHT, bottom + 0.5, colours.line);
    steps(ctx, used, top, bottom, y);
    ctx.lineTo(x(Math.min(view.to, data.duration)), bottom);
    ctx.fillStyle = colours[zone];
    ctx.globalAlpha = 0.82;
    ctx.fill();
    ctx.globalAlpha = 1;
    if (asked[highest(asked)] <= most) { // else the line lies far above
      steps(ctx, asked, top, bottom, y);
      ctx.strokeStyle = colours.soft;
      ctx.stroke();
    }
    text(ctx, zone, LEFT - 12, top + LANE / 2 - 8, { align: "right", colour: colours.ink });
    text(ctx, `of ${size(asked[highest(asked)])}`, LEFT - 12, top + LANE / 2 + 8, { align: "right" });
    const whose = zone === "scratch" ? planOf(used[peak], moments.at[peak]) : "";
    if (used[peak]) mark(ctx, x(moments.at[peak]), y(used[peak]), `peak ${size(used[peak])}${whose}`);
  }

  // The zone of scratch is as large as the largest plan alive: whose that is.
  function planOf(bytes, when) {
    const graph = data.graphs.find(({ peak, closed }) => peak === bytes && !(closed && closed < when));
    return graph ? `, the plan of ${name(graph.name)}` : "";
  }

  function emptyLane(ctx, zone, top) {
    line(ctx, LEFT, top + EMPTY + 0.5, width - RIGHT, top + EMPTY + 0.5, colours.line);
    text(ctx, zone, LEFT - 12, top + EMPTY / 2, { align: "right", colour: colours.ink });
    text(ctx, "unused", LEFT + 6, top + EMPTY / 2 + 2);
  }

  function mark(ctx, px, py, words) {
    const inside = Math.max(LEFT, px), right = inside + ctx.measureText(words).width + 12 > width - RIGHT;
    ctx.fillStyle = colours.ink;
    ctx.beginPath();
    ctx.arc(inside, py, 2.5, 0, 7);
    ctx.fill();
    const align = right ? "right" : "left";
    text(ctx, words, inside + (right ? -7 : 7), py - 7, { align, colour: colours.ink });
  }

  // Things that lie within one pixel of each other are drawn once.
  function strip(ctx, { title, of, colour }, top) {
    let drawn = -1;
    const first = Math.max(0, lastAtMost(of.from, view.from));
    for (let i = first; i < of.from.length && of.from[i] <= view.to; i++) {
      const from = Math.max(LEFT, x(of.from[i]));
      const to = Math.min(width - RIGHT, Math.max(from + 0.7, x(of.to[i])));
      if (to <= drawn + 0.3 || to < LEFT) continue;
      ctx.fillStyle = colour(i);
      ctx.fillRect(from, top, to - from, STRIP);
      drawn = to;
    }
    text(ctx, title, LEFT - 12, top + STRIP / 2, { align: "right", colour: colours.ink });
  }

  function axis(ctx, top) {
    const step = tickStep(view.to - view.from, Math.max(2, (width - LEFT) / 110));
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      line(ctx, x(tick), 0, x(tick), top + 4, colours.line);
      text(ctx, tick ? time(tick) : "0", x(tick), top + 14, { align: tick ? "center" : "left" });
    }
  }

  const heights = ZONES.map((zone) => peakOf(zone) ? LANE : EMPTY);
  const laneTop = (i) => 8 + heights.slice(0, i).reduce((sum, height) => sum + height + GAP, 0);
  const stripsTop = laneTop(ZONES.length);
  const self = drawing($("timeline"), {
    height: stripsTop + strips.length * (STRIP + 8) + AXIS,
    draw(ctx, wide) {
      width = wide;
      const bottom = stripsTop + strips.length * (STRIP + 8);
      axis(ctx, bottom);
      ZONES.forEach((zone, i) => (heights[i] === LANE ? lane : emptyLane)(ctx, zone, laneTop(i)));
      strips.forEach((each, i) => strip(ctx, each, stripsTop + i * (STRIP + 8)));
      if (cursor !== null) line(ctx, cursor, 0, cursor, bottom, colours.ink, [3, 3]);
    },
    hover(event, px) {
      if (dragged) return move(event), false;
      cursor = px >= LEFT && px <= width - RIGHT ? px : null;
      self.redraw();
      return cursor !== null && (tip.show(event, ...describe(at(px))), true);
    },
    leave() { cursor = dragged = null; self.redraw(); },
  });

  // ---- words at a time

  function during(of, when) {
    const slack = (view.to - view.from) / Math.max(1, width); // a pixel
    const i = lastAtMost(of.from, when + slack);
    return i >= 0 && of.to[i] >= when - slack ? i : -1;
  }

  function describe(when) {
    const i = Math.max(0, lastAtMost(moments.at, when)), replay = during(spans, when), launch = during(slices, when);
    const lines = ZONES.map((zone) => `${zone} ${size(moments[zone][i])} of ${size(moments[`reserved_${zone}`][i])}`);
    if (replay >= 0) {
      const graph = spans.graph[replay], times = spans.replays[replay];
      const words = graph ? `replay of ${name(data.graphs[graph - 1].name)}` : "replays of several graphs";
      const often = times > 1 ? `, ${number(times)} times` : "";
      lines.push(`${words}${often}: ${time(spans.to[replay] - spans.from[replay])}`);
    }
    if (launch >= 0) {
      lines.push(`kernel ${name(slices.name[launch])}: ${time(slices.to[launch] - slices.from[launch])}`);
    }
    return [`after ${time(Math.max(0, when))}`, lines];
  }

  // ---- zooming and moving

  function look(from, to) {
    const range = Math.min(data.duration, Math.max(1000, to - from));
    view.from = Math.min(Math.max(0, from), data.duration - range);
    view.to = view.from + range;
    self.redraw();
  }

  function move(event) {
    const by = (dragged.x - event.clientX) / (width - LEFT - RIGHT) * (dragged.to - dragged.from);
    look(dragged.from + by, dragged.to + by);
  }

  const canvas = $("timeline");
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const here = at(event.clientX - canvas.getBoundingClientRect().left);
    const by = Math.exp(event.deltaY * 0.0015);
    look(here - (here - view.from) * by, here + (view.to - here) * by);
  }, { passive: false });
  canvas.addEventListener("mousedown", (event) => { dragged = { x: event.clientX, ...view }; tip.hide(); });
  addEventListener("mouseup", () => { dragged = null; });
  canvas.addEventListener("dblclick", () => look(0, data.duration));
  canvas.setAttribute("aria-label", ZONES.map((zone) => `${zone}: peak ${size(peakOf(zone))}`).join(", "));
  return self;
})();
