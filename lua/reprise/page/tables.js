// tables.js - the list of graphs, of which one is chosen, and the costs of the chosen one's kernels.

function headed(table, heads, rows) {
  const head = make("tr", {}, ...heads.map((words) => make("th", {}, words)));
  table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}
const key = (colour) => make("span", { className: "key", style: `background:${colour}` });
const cells = (...all) => all.map((cell) => make("td", {}, ...[cell].flat()));

let chosen = null;

function rowOfGraph(graph, i) {
  const ratio = graph.lower_bound ? (graph.peak / graph.lower_bound).toFixed(3) : "";
  const row = make("tr", { className: graph === chosen ? "chosen" : "" }, ...cells(
    [key(graphColour(i + 1)), name(graph.name), graph.closed ? " (closed)" : ""], number(graph.node_count),
    number(graph.life_count), size(graph.apart), size(graph.peak), ratio, size(graph.inputs), number(graph.replays)));
  row.addEventListener("click", () => choose(graph));
  return row;
}

// Sums of a graph's nodes by kernel, the most expensive first.
function costsOf(graph) {
  const sums = new Map();
  graph.nodes.kernel.forEach((kernel, i) => {
    const sum = sums.get(kernel) ?? { kernel, nodes: 0, time: 0, reads: 0, writes: 0 };
    sum.nodes++;
    sum.time += typicalTime(graph, i);
    sum.reads += graph.nodes.reads[i];
    sum.writes += graph.nodes.writes[i];
    sums.set(kernel, sum);
  });
  return [...sums.values()].sort((a, b) => b.time - a.time || b.reads + b.writes - a.reads - a.writes);
}

function rowOfKernel(sum, all) {
  const moved = sum.reads + sum.writes, of = all.time ? sum.time / all.time : moved / all.moved;
  const style = `width:${(of * 110).toFixed(1)}px;background:${kernelColour(sum.kernel)}`;
  return make("tr", {}, ...cells([key(kernelColour(sum.kernel)), name(sum.kernel)], number(sum.nodes),
    all.time ? time(sum.time) : "", [make("span", { className: "share", style }), `${(of * 100).toFixed(1)} %`],
    size(sum.reads), size(sum.writes), all.time ? `${(moved / sum.time).toFixed(1)}` : ""));
}

function showCosts() {
  if (!chosen?.nodes) return headed($("costs"), [], []);
  const list = costsOf(chosen), all = { time: 0, moved: 0 };
  for (const sum of list) { all.time += sum.time; all.moved += sum.reads + sum.writes; }
  const share = all.time ? "of the time" : "of the bytes";
  headed($("costs"), ["kernel", "nodes", "time", share, "reads", "writes", "GB/s"],
    list.map((sum) => rowOfKernel(sum, all)));
  $("costs-note").textContent = all.time
    ? `One replay takes ${time(all.time)} when its nodes are timed one by one. Bytes are what the arguments span: `
      + "of a table or a cache a kernel may touch less."
    : "Times were not recorded: rp.trace does. Bytes are what the arguments span.";
}

// Scrolls the list, not the page.
function showChosen() {
  const box = $("list").parentElement, row = $("list").querySelector(".chosen");
  if (!row) return;
  const above = row.offsetTop - row.offsetHeight - box.scrollTop, below = row.offsetTop + row.offsetHeight - box.scrollTop;
  if (above < 0 || below > box.clientHeight) box.scrollTop = row.offsetTop - 2 * row.offsetHeight;
}

function choose(graph) {
  chosen = graph;
  headed($("list"), ["graph", "nodes", "tensors", "apart", "plan", "of its bound", "inputs", "replays"],
    data.graphs.map(rowOfGraph));
  showChosen();
  $("plan-note").textContent = graph?.nodes ? "A box is a tensor: how long it is needed, and where it lies; its "
    + "colour is the kernel that made it; outputs have a border. Every graph of the pool begins at offset 0: they "
    + "lie over each other." : "";
  plan.choose(graph);
  showCosts();
}
