// frame.js - what the drawings share: the data, words for numbers, elements, colours, a canvas.

window.onerror = (message) => { document.documentElement.dataset.error = message; };

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const ZONES = ["tensors", "slots", "scratch"];

// ---- words

function size(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return unit ? `${bytes.toFixed(bytes < 10 ? 2 : bytes < 100 ? 1 : 0)} ${units[unit]}` : `${bytes} bytes`;
}

function time(ns) {
  const [unit, name] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "us"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / unit;
  return `${value.toFixed(unit === 1 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0)} ${name}`;
}

const number = (n) => n.toLocaleString("en");
const count = (n, noun, nouns = `${noun}s`) => `${number(n)} ${n === 1 ? noun : nouns}`;
const name = (index) => index ? data.names[index - 1] : "unknown";

// ---- elements: text is never read as HTML

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") element.style.cssText = value; else element[key] = value;
  }
  element.append(...children);
  return element;
}

const tip = {
  show(event, title, lines) {
    const box = $("tip");
    box.replaceChildren(make("b", {}, title), ...lines.filter(Boolean).map((line) => make("span", {}, line)));
    box.style.display = "block";
    const fits = event.clientX + 16 + box.offsetWidth <= innerWidth;
    const x = fits ? event.clientX + 16 : event.clientX - box.offsetWidth - 12;
    const y = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 6);
    box.style.left = `${Math.max(4, x)}px`;
    box.style.top = `${Math.max(4, y)}px`;
  },
  hide() { $("tip").style.display = "none"; },
};

// ---- colours

const colours = new Proxy({}, {
  get(cache, key) {
    return cache[key] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${key}`).trim();
  },
  deleteProperty(cache) { for (const key of Object.keys(cache)) delete cache[key]; return true; },
});

// The same kernel has the same colour everywhere; the most frequent ones get the first.
const kernelColour = (() => {
  const uses = new Map();
  const use = (kernel, times) => uses.set(kernel, (uses.get(kernel) ?? 0) + times);
  for (const graph of data.graphs) for (const kernel of graph.nodes?.kernel ?? []) use(kernel, 1);
  for (const kernel of data.slices.name) use(kernel, 0.001);
  const order = new Map([...uses].sort((a, b) => b[1] - a[1]).map(([kernel], i) => [kernel, i % 10]));
  return (kernel) => colours[`k${order.get(kernel) ?? 9}`];
})();
const graphColour = (graph) => graph ? colours[`g${(graph - 1) % 8}`] : colours.soft;

// ---- a canvas

const drawings = [];

// A drawing has height, draw(ctx, width) and hover(event, x, y), which answers whether it shows something.
function drawing(canvas, self) {
  self.redraw = () => {
    const width = canvas.clientWidth, scale = devicePixelRatio || 1;
    canvas.style.height = `${self.height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(self.height * scale);
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    self.draw(ctx, width);
  };
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    if (!self.hover(event, event.clientX - box.left, event.clientY - box.top)) tip.hide();
  });
  canvas.addEventListener("mouseleave", () => { tip.hide(); self.leave?.(); });
  drawings.push(self);
  return self;
}

function redrawAll() {
  delete colours.all;
  for (const each of drawings) each.redraw();
}

addEventListener("resize", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { redrawAll(); start(); });

function text(ctx, words, x, y, { align = "left", colour = colours.soft } = {}) {
  ctx.textAlign = align;
  ctx.fillStyle = colour;
  ctx.fillText(words, x, y);
}

function line(ctx, x, y, toX, toY, colour, dash = []) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
  ctx.setLineDash([]);
}

// The last index whose value is at most `value`; -1: none. `list` rises.
function lastAtMost(list, value) {
  let low = -1, high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle] <= value) low = middle; else high = middle - 1;
  }
  return low;
}

// Round steps between ticks: about `most` of them over `range`; of bytes, powers of two.
function tickStep(range, most) {
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((times) => times * power >= rough) ?? 10);
}
const byteStep = (range, most) => 2 ** Math.ceil(Math.log2(range / most));
