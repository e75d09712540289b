// plan.js - the chosen graph: lifetimes over offsets, and below each node its time and its bytes.

// The median of a node's times, in nanoseconds: of those replays whose launches were kept, else their mean.
const typicalTime = (() => {
  const kept = new Map(); // graph -> node -> times
  data.slices.graph.forEach((graph, i) => {
    if (!graph) return;
    const nodes = kept.get(graph) ?? kept.set(graph, []).get(graph);
    (nodes[data.slices.node[i] - 1] ??= []).push(data.slices.to[i] - data.slices.from[i]);
  });
  for (const nodes of kept.values()) for (const times of nodes) times?.sort((a, b) => a - b);
  return (graph, i) => {
    const times = kept.get(data.graphs.indexOf(graph) + 1)?.[i], { timed, time: sum } = graph.nodes;
    return times ? times[times.length >> 1] : timed[i] ? sum[i] / timed[i] : 0;
  };
})();

const plan = (() => {
  const LEFT = 92, RIGHT = 14, TOP = 22, PLAN = 300, BARS = 64, GAP = 26;
  const SMALL = "11px system-ui, sans-serif";
  let graph = null, width = 0, marked = -1, alive = [];

  const columns = () => graph.node_count;
  const x = (node) => LEFT + node / columns() * (width - LEFT - RIGHT);
  const y = (bytes) => TOP + PLAN - bytes / Math.max(1, graph.peak) * PLAN;
  const timed = () => graph.nodes.timed.some((times) => times > 0);
  const typical = (i) => typicalTime(graph, i);
  const bytes = (i) => graph.nodes.reads[i] + graph.nodes.writes[i];
  const kernel = (node) => name(graph.nodes.kernel[node - 1]);

  // Bytes alive at each node; the most of them is the lower bound of any plan.
  function sumAlive() {
    const { first, last, bytes: size } = graph.lives, change = new Array(columns() + 1).fill(0);
    first.forEach((node, i) => { change[node - 1] += size[i]; change[last[i]] -= size[i]; });
    let now = 0;
    return change.slice(0, -1).map((by) => now += by);
  }

  // ---- drawing

  // Along the box, or down it where it is narrow; else only what stands before the first "_", or nothing.
  function label(ctx, words, left, top, wide, high) {
    const fits = (part, room, across) => ctx.measureText(part).width + 6 <= room && across >= 13;
    ctx.save();
    ctx.font = SMALL;
    ctx.translate(left + wide / 2, top + high / 2);
    const short = `${words.split("_")[0]}…`;
    const along = [words, short].find((part) => fits(part, wide, high));
    const down = along ? null : [words, short].find((part) => fits(part, high, wide));
    if (down) ctx.rotate(-Math.PI / 2);
    text(ctx, along ?? down ?? "", 0, 0.5, { align: "center", colour: colours.paper });
    ctx.restore();
  }

  function life(ctx, i) {
    const { first, last, offset, bytes: size, output } = graph.lives, by = graph.nodes.kernel[first[i] - 1];
    const left = x(first[i] - 1) + 0.5, top = y(offset[i] + size[i]) + 0.5;
    const wide = Math.max(1, x(last[i]) - left - 0.5), high = Math.max(1, y(offset[i]) - top - 0.5);
    ctx.fillStyle = kernelColour(by);
    ctx.globalAlpha = marked === i ? 1 : 0.85;
    ctx.fillRect(left, top, wide, high);
    ctx.globalAlpha = 1;
    if (output[i] || marked === i) {
      ctx.strokeStyle = colours.ink;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(left + 0.5, top + 0.5, wide - 1, high - 1);
    }
    label(ctx, name(by), left, top, wide, high);
  }

  function bound(ctx) {
    const top = y(graph.lower_bound);
    line(ctx, LEFT, top, width - RIGHT, top, colours.ink, [5, 4]);
    const words = graph.lower_bound === graph.peak ? `${size(graph.peak)}, the least that any plan needs`
      : `lower bound ${size(graph.lower_bound)}`;
    text(ctx, words, width - RIGHT, top - 9, { align: "right", colour: colours.ink });
  }

  function bars(ctx, title, top, of, words) {
    const most = Math.max(...Array.from({ length: columns() }, (_, i) => of(i)), 1e-9);
    text(ctx, title, LEFT - 12, top + BARS / 2 - 8, { align: "right", colour: colours.ink });
    text(ctx, `to ${words(most)}`, LEFT - 12, top + BARS / 2 + 8, { align: "right" });
    for (let i = 0; i < columns(); i++) {
      const high = of(i) / most * BARS;
      ctx.fillStyle = kernelColour(graph.nodes.kernel[i]);
      ctx.fillRect(x(i) + 0.5, top + BARS - high, Math.max(0.7, x(i + 1) - x(i) - 1), high);
    }
    line(ctx, LEFT, top + BARS + 0.5, width - RIGHT, top + BARS + 0.5, colours.line);
  }

  function axes(ctx) {
    const step = byteStep(graph.peak || 1, 6);
    for (let tick = 0; tick <= graph.peak; tick += step) {
      line(ctx, LEFT, y(tick) + 0.5, width - RIGHT, y(tick) + 0.5, colours.line);
      text(ctx, tick ? size(tick) : "0", LEFT - 12, y(tick), { align: "right" });
    }
    const every = Math.max(1, tickStep(columns(), Math.max(2, width / 90)));
    const below = TOP + PLAN + 15;
    for (let node = every; node <= columns(); node += every) {
      text(ctx, `${node}`, x(node - 0.5), below, { align: "center" });
    }
    text(ctx, "node", LEFT - 12, below, { align: "right" });
  }

  function rows() {
    const list = [["bytes", bytes, size]];
    return timed() ? [["time", typical, time], ...list] : list;
  }
  const rowTop = (i) => TOP + PLAN + 38 + i * (BARS + GAP);

  const self = drawing($("plan"), {
    height: 60,
    draw(ctx, wide) {
      width = wide;
      if (!graph) return text(ctx, "no graph was drawn in detail", LEFT, 30);
      axes(ctx);
      graph.lives.first.forEach((_, i) => life(ctx, i));
      if (graph.life_count) bound(ctx);
      rows().forEach(([title, of, words], i) => bars(ctx, title, rowTop(i), of, words));
    },
    hover(event, px, py) {
      if (!graph || px < LEFT || px > width - RIGHT) return mark(-1), false;
      const share = (px - LEFT) / (width - LEFT - RIGHT);
      const node = Math.min(columns(), Math.max(1, Math.ceil(share * columns())));
      const i = py < TOP + PLAN + 2 ? find(node, py) : -1;
      mark(i);
      if (i >= 0) tip.show(event, ...wordsOfLife(i));
      else tip.show(event, ...wordsOfNode(node));
      return true;
    },
    leave() { mark(-1); },
  });

  function mark(i) {
    if (i === marked) return;
    marked = i;
    self.redraw();
  }

  // ---- words

  function find(node, py) {
    const { first, last, offset, bytes: size } = graph.lives;
    return first.findIndex((from, i) => from <= node && node <= last[i]
      && y(offset[i] + size[i]) <= py && py <= y(offset[i]));
  }

  function wordsOfLife(i) {
    const { first, last, offset, bytes: bytesOf, output } = graph.lives;
    return [`${output[i] ? "output" : "temporary"} of ${kernel(first[i])}`, [
      `${size(bytesOf[i])} at offset ${number(offset[i])}`,
      `node ${first[i]} (${kernel(first[i])}) to node ${last[i]} (${kernel(last[i])})`,
      graph.nodes.where[first[i] - 1] ? name(graph.nodes.where[first[i] - 1]) : ""]];
  }

  function wordsOfNode(node) {
    const i = node - 1, { reads, writes, blocks, where, timed: times, least } = graph.nodes;
    const lines = [`reads ${size(reads[i])}, writes ${size(writes[i])}, ${count(blocks[i], "block")}`];
    if (times[i]) {
      lines.push(`${time(typical(i))} typically, ${time(least[i])} at best, of ${count(times[i], "replay")}`);
    }
    if (where[i]) lines.push(name(where[i]));
    lines.push(`${size(alive[i])} of temporaries alive`);
    return [`node ${node}: ${kernel(node)}`, lines];
  }

  self.choose = (next) => {
    graph = next && next.nodes ? next : null;
    marked = -1;
    alive = graph ? sumAlive() : [];
    self.height = graph ? rowTop(rows().length) - GAP + 8 : 60;
    const words = graph ? `plan of ${name(graph.name)}, ${size(graph.peak)}` : "no plan";
    $("plan").setAttribute("aria-label", words);
    self.redraw();
  };
  return self;
})();
