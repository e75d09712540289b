// saving.js - three bars: memory of the graphs with nothing shared, with a plan each, and as it is.

// The sums over the graphs alive at once, when they were largest.
function largestTogether() {
  const events = [];
  for (const graph of data.graphs) {
    events.push([graph.made, 1, graph]);
    if (graph.closed) events.push([graph.closed, 0, graph]);
  }
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const now = { graphs: 0, apart: 0, peak: 0, inputs: 0, lives: 0 };
  let most = { ...now };
  for (const [, opens, graph] of events) {
    const sign = opens ? 1 : -1;
    now.graphs += sign;
    now.lives += sign * graph.life_count;
    for (const key of ["apart", "peak", "inputs"]) now[key] += sign * graph[key];
    if (now.apart + now.inputs > most.apart + most.inputs) most = { ...now };
  }
  return most;
}

const peakOf = (zone) => data.moments[zone].reduce((most, value) => Math.max(most, value), 0);

function bar(what, scratch, inputs, most, now) {
  const total = scratch + inputs;
  const style = (bytes, zone) => `width:${70 * bytes / most}%;background:var(--${zone})`;
  const part = (bytes, zone) => bytes
    ? [make("div", { className: "part", style: style(bytes, zone), title: zone })] : [];
  const less = now && total ? most / total : 1;
  return make("div", { className: now ? "bar now" : "bar" }, make("div", { className: "what" }, what),
    make("div", { className: "track" }, ...part(scratch, "scratch"), ...part(inputs, "slots"),
      make("div", { className: "amount" }, size(total),
        make("small", {}, less >= 1.05 ? `  ${less.toFixed(less < 10 ? 1 : 0)} times less` : ""))));
}

function showSaving() {
  const most = largestTogether(), scratch = peakOf("scratch"), slots = peakOf("slots");
  if (!most.graphs) {
    $("bars").replaceChildren();
    $("saving-note").textContent = "No graph was captured or replayed while this was recorded.";
    return;
  }
  const largest = Math.max(most.apart + most.inputs, scratch + slots);
  $("bars").replaceChildren(
    bar("each tensor apart", most.apart, most.inputs, largest),
    bar("each graph planned, apart", most.peak, most.inputs, largest),
    bar("in this pool", scratch, slots, largest, true));
  $("saving-note").replaceChildren(
    make("span", { className: "key", style: "background:var(--scratch)" }),
    `${count(most.lives, "tensor")} that ${count(most.graphs, "graph makes", "graphs make")}; `,
    make("span", { className: "key", style: "background:var(--slots);margin-left:10px" }),
    "their inputs. Weights and state lie beside them, in the tensors zone.");
}
