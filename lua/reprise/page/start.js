// start.js - fills the page.

function timedLaunches() {
  const timed = data.slices.from.length, words = count(data.launches, "launch", "launches");
  return timed < data.launches ? `the first ${number(timed)} of ${words} timed` : `${words}, timed`;
}

function start() {
  $("title").textContent = `The pool of ${data.device}`;
  document.title = `reprise: the pool of ${data.device}`;
  $("facts").textContent = [data.model, `${time(data.duration)} recorded`,
    `${count(data.replays, "replay")} of ${count(data.graphs.length, "graph")}`,
    count(data.changes, "change of the pool", "changes of the pool"),
    data.timed ? timedLaunches() : "",
    data.torn ? "incomplete: host memory ran out" : ""].filter(Boolean).join(" · ");
  showSaving();
  const work = (graph) => graph ? graph.replays * graph.node_count : -1;
  choose(chosen ?? data.graphs.reduce((best, graph) => graph.nodes && work(graph) > work(best) ? graph : best, null));
}

start();
redrawAll();
document.documentElement.dataset.ready = [`${data.moments.at.length} moments`, `${data.spans.from.length} spans`,
  `${data.slices.from.length} slices`, `${data.graphs.length} graphs`].join(", ");
