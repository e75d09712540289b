/* cuda_graph.c - an executable graph, built node by node from launches.
 *
 * Nodes are added without dependencies, then the edges, one type a call: the order of the list is kept, and every
 * edge stands where the caller put it. In a chain the edge into a launch that may begin early is programmatic (on 9.0
 * and later, unless REPRISE_PDL=0). The graph that an executable was made from is kept, since its nodes
 * name what exec_set patches.
 */
#include "cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct rp_exec {
  CUgraph graph;
  CUgraphExec handle;
  CUgraphNode *nodes; /* of the graph, in the order of the launches; owned */
  size_t count;
  size_t bytes;   /* of device memory that the driver took for it */
  char label[40]; /* for the sentence about a fault */
};

static CUDA_KERNEL_NODE_PARAMS parameters(const rp_launch *launch) {
  const rp_cuda_function *function = launch->function;
  return (CUDA_KERNEL_NODE_PARAMS){.func = function->handle,
                                   .gridDimX = launch->grid.x,
                                   .gridDimY = launch->grid.y,
                                   .gridDimZ = launch->grid.z,
                                   .blockDimX = launch->block.x,
                                   .blockDimY = launch->block.y,
                                   .blockDimZ = launch->block.z,
                                   .sharedMemBytes = launch->shared,
                                   .kernelParams = (void **)(uintptr_t)launch->args};
}

static rp_status add_node(rp_cuda_device *dev, const rp_exec *exec, size_t i, const rp_launch *launch) {
  const char *name = launch->signature->name;
  CUDA_KERNEL_NODE_PARAMS params = parameters(launch);
  CUlaunchAttribute attributes[RP_CUDA_ATTRIBUTES];
  RP_TRY(rp_cuda_prepare(dev, launch));
  RP_CU(dev, cuGraphAddKernelNode, (&exec->nodes[i], exec->graph, NULL, 0, &params), "node %zu, %s", i, name);
  unsigned count = rp_cuda_attributes(launch, attributes);
  for (unsigned a = 0; a < count; a++)
    RP_CU(dev, cuGraphKernelNodeSetAttribute, (exec->nodes[i], attributes[a].id, &attributes[a].value),
          "node %zu, %s, attribute %d", i, name, (int)attributes[a].id);
  return RP_OK;
}

static rp_status add_edges(rp_cuda_device *dev, const rp_exec *exec, const CUgraphNode *from,
                           const CUgraphNode *to, size_t count) {
  if (count) RP_CU(dev, cuGraphAddDependencies, (exec->graph, from, to, NULL, count), "%zu edges", count);
  return RP_OK;
}

/* One edge of a chain: the later node is started when all blocks of the earlier one released it, or ended. */
static rp_status add_programmatic(rp_cuda_device *dev, const rp_exec *exec, size_t to) {
  const CUgraphEdgeData data = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
  RP_CU(dev, cuGraphAddDependencies, (exec->graph, exec->nodes + to - 1, exec->nodes + to, &data, 1),
        "programmatic edge to node %zu", to);
  return RP_OK;
}

static bool programmatic_edges(const rp_cuda_device *dev) {
  const char *wish = getenv("REPRISE_PDL");
  return dev->capability >= 90 && !(wish && strcmp(wish, "0") == 0);
}

/* Runs of plain edges are added together. */
static rp_status add_chain(rp_cuda_device *dev, const rp_exec *exec, const rp_launch *nodes) {
  bool may = programmatic_edges(dev);
  size_t plain = 0; /* edges into the nodes before the present one that are still to be added */
  for (size_t i = 1; i <= exec->count; i++) {
    bool early = i < exec->count && may && nodes[i].programmatic;
    if (i < exec->count && !early) {
      plain++;
      continue;
    }
    RP_TRY(add_edges(dev, exec, exec->nodes + i - 1 - plain, exec->nodes + i - plain, plain));
    if (early) RP_TRY(add_programmatic(dev, exec, i));
    plain = 0;
  }
  return RP_OK;
}

static rp_status check_edge(const rp_exec *exec, rp_edge edge) {
  if (edge.from < exec->count && edge.to < exec->count && edge.from != edge.to) return RP_OK;
  return rp_fail(RP_ARGUMENT, "building a graph of %zu nodes: edge from %u to %u: no such pair of nodes",
                 exec->count, (unsigned)edge.from, (unsigned)edge.to);
}

/* Edges as two lists of nodes. `ends` has room for 2 * count. */
static rp_status add_given(rp_cuda_device *dev, const rp_exec *exec, const rp_edge *edges, size_t count,
                           CUgraphNode *ends) {
  for (size_t i = 0; i < count; i++) {
    RP_TRY(check_edge(exec, edges[i]));
    ends[i] = exec->nodes[edges[i].from];
    ends[count + i] = exec->nodes[edges[i].to];
  }
  return add_edges(dev, exec, ends, ends + count, count);
}

static rp_status connect(rp_cuda_device *dev, const rp_exec *exec, const rp_launch *nodes,
                         const rp_edge *edges, size_t edge_count) {
  if (!edges) return add_chain(dev, exec, nodes);
  CUgraphNode *ends = rp_alloc_zero(edge_count, 2 * sizeof *ends);
  if (!ends) return RP_NOMEM;
  rp_status added = add_given(dev, exec, edges, edge_count, ends);
  rp_free(ends);
  return added;
}

static rp_status instantiate(rp_cuda_device *dev, rp_exec *exec) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
  CUresult result = rp_cuda.cuGraphInstantiateWithParams(&exec->handle, exec->graph, &params);
  RP_TRY(rp_cuda_result(dev, result, "cuGraphInstantiateWithParams", "%zu nodes, reason %d", exec->count,
                        (int)params.result_out));
  RP_CU(dev, cuGraphUpload, (exec->handle, dev->stream), "%zu nodes", exec->count);
  return RP_OK;
}

/* The driver takes memory for executables in large pieces: most cost nothing, and then one pays for many. */
static rp_status instantiate_measured(rp_cuda_device *dev, rp_exec *exec) {
  size_t before, after, total;
  RP_CU(dev, cuMemGetInfo, (&before, &total), "%s", "");
  RP_TRY(instantiate(dev, exec));
  RP_CU(dev, cuMemGetInfo, (&after, &total), "%s", "");
  exec->bytes = before > after ? before - after : 0; /* others may have given memory back meanwhile */
  return RP_OK;
}

size_t rp_cuda_exec_bytes(const rp_exec *exec) { return exec->bytes; }

static rp_status build(rp_cuda_device *dev, rp_exec *exec, const rp_launch *nodes, const rp_edge *edges,
                       size_t edge_count) {
  RP_CU(dev, cuGraphCreate, (&exec->graph, 0), "%s", "");
  for (size_t i = 0; i < exec->count; i++) RP_TRY(add_node(dev, exec, i, &nodes[i]));
  RP_TRY(connect(dev, exec, nodes, edges, edge_count));
  return instantiate_measured(dev, exec);
}

static void discard(rp_exec *exec) {
  if (exec->handle) rp_cuda.cuGraphExecDestroy(exec->handle);
  if (exec->graph) rp_cuda.cuGraphDestroy(exec->graph);
  rp_free(exec->nodes);
  rp_free(exec);
}

rp_status rp_cuda_exec_build(rp_device *base, const rp_launch *nodes, size_t count, const rp_edge *edges,
                             size_t edge_count, rp_exec **out) {
  rp_cuda_device *dev = rp_cuda_of(base);
  if (!count) return rp_fail(RP_ARGUMENT, "building a graph on %s: it has no nodes", base->name);
  RP_TRY(rp_cuda_enter(dev));
  rp_exec *exec = rp_alloc_zero(1, sizeof *exec);
  if (!exec) return RP_NOMEM;
  exec->count = count;
  snprintf(exec->label, sizeof exec->label, "a graph of %zu nodes", count);
  exec->nodes = rp_alloc_zero(count, sizeof *exec->nodes);
  rp_status built = exec->nodes ? build(dev, exec, nodes, edges, edge_count) : RP_NOMEM;
  if (built != RP_OK) return discard(exec), built;
  *out = exec;
  return RP_OK;
}

/* A replay in flight keeps the values it was launched with. */
rp_status rp_cuda_exec_set(rp_device *base, rp_exec *exec, size_t node, const rp_launch *launch) {
  rp_cuda_device *dev = rp_cuda_of(base);
  if (node >= exec->count)
    return rp_fail(RP_ARGUMENT, "patching a graph on %s: node %zu: it has %zu", base->name, node,
                   exec->count);
  RP_TRY(rp_cuda_enter(dev));
  RP_TRY(rp_cuda_prepare(dev, launch));
  CUDA_KERNEL_NODE_PARAMS params = parameters(launch);
  RP_CU(dev, cuGraphExecKernelNodeSetParams, (exec->handle, exec->nodes[node], &params), "node %zu, %s", node,
        launch->signature->name);
  return RP_OK;
}

rp_status rp_cuda_exec_launch(rp_device *base, rp_exec *exec) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  rp_cuda_note_launch(dev, exec->label);
  RP_CU(dev, cuGraphLaunch, (exec->handle, dev->stream), "%zu nodes", exec->count);
  return RP_OK;
}

rp_status rp_cuda_trim(rp_device *base) {
  rp_cuda_device *dev = rp_cuda_of(base);
  RP_TRY(rp_cuda_enter(dev));
  RP_CU(dev, cuDeviceGraphMemTrim, (dev->device), "%s", "");
  return RP_OK;
}

void rp_cuda_exec_free(rp_device *base, rp_exec *exec) {
  rp_cuda_device *dev = rp_cuda_of(base);
  rp_cuda.cuCtxSetCurrent(dev->context);
  rp_cuda.cuStreamSynchronize(dev->stream);
  discard(exec);
}
