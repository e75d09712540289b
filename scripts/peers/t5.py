"""The decode work of scripts/bench.lua by PyTorch and ONNX Runtime on the CPU, as JSON lines for its --peer.

generate   transformers' generate: eager, caches that grow
eager      a step by hand: static caches, position in a tensor, plain PyTorch
compiled   the same step through torch.compile
onnx       a step as an ONNX graph, caches that grow, values handed on without copies

One source, greedy (generate: beams too), no token ends it. Times are of steps alone: the encoder is not counted. All
ways must make the same tokens. Weights are computed with as f32, whatever they are stored as.
"""
import argparse
import json
import sys
import time

import torch
from transformers import T5ForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, help="a folder of a T5")
parser.add_argument("--shape", required=True, help="its name in the lines")
parser.add_argument("--source", type=int, default=32)
parser.add_argument("--new", type=int, default=32)
parser.add_argument("--beams", type=int, default=1)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--modes", default="generate,eager,compiled,onnx")
options = parser.parse_args()

torch.set_num_threads(options.threads)
torch.set_grad_enabled(False)
model = T5ForConditionalGeneration.from_pretrained(options.model, dtype=torch.float32).eval()
config = model.config
HEADS, SIZE, WIDTH, NEW = config.num_heads, config.d_kv, config.d_model, options.new
SOURCE = torch.tensor([[3 + i * 7919 % 256 for i in range(1, options.source + 1)]])
SCALE = WIDTH**-0.5 if config.tie_word_embeddings else 1.0


def generate(count):
    return model.generate(
        input_ids=SOURCE, attention_mask=torch.ones_like(SOURCE), do_sample=False, num_beams=options.beams,
        max_new_tokens=count, min_new_tokens=count, eos_token_id=None,
    )[0, 1:].tolist()


class Layer:
    """Weights of a decoder layer, and keys and values of the source."""

    def __init__(self, block, hidden):
        own, cross, ff = block.layer[0], block.layer[1], block.layer[2]
        self.norms = [part.layer_norm.weight for part in (own, cross, ff)]
        a, c, d = own.SelfAttention, cross.EncDecAttention, ff.DenseReluDense
        self.qkv = torch.cat([a.q.weight, a.k.weight, a.v.weight]).contiguous()
        self.o, self.cross_q, self.cross_o = a.o.weight, c.q.weight, c.o.weight
        self.gated = config.is_gated_act
        self.wi = torch.cat([d.wi_0.weight, d.wi_1.weight]).contiguous() if self.gated else d.wi.weight
        self.wo = d.wo.weight
        self.cross_keys, self.cross_values = (heads(hidden @ w.weight.T) for w in (c.k, c.v))
        self.keys, self.values = torch.zeros(HEADS, NEW, SIZE), torch.zeros(HEADS, NEW, SIZE)


def heads(x):
    return x.view(-1, HEADS, SIZE).transpose(0, 1).contiguous()


HIDDEN = model.encoder(input_ids=SOURCE).last_hidden_state[0]
LAYERS = [Layer(block, HIDDEN) for block in model.decoder.block]
FINAL, EMBEDDING, HEAD = model.decoder.final_layer_norm.weight, model.decoder.embed_tokens.weight, model.lm_head.weight
BIAS = model.decoder.block[0].layer[0].SelfAttention.compute_bias(NEW, NEW)[0]  # heads, query, key


# ---- by hand


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.layer_norm_epsilon) * weight


def attend(q, keys, values, bias):
    scores = torch.matmul(q, keys.transpose(1, 2))
    return torch.matmul(torch.softmax(scores if bias is None else scores + bias, -1), values).view(1, -1)


def feed(x, layer):
    y = norm(x, layer.norms[2]) @ layer.wi.T
    if layer.gated:
        a, b = y.chunk(2, -1)
        y = torch.nn.functional.gelu(a, approximate="tanh") * b
    else:
        y = torch.relu(y)
    return x + y @ layer.wo.T


MASKED = BIAS + torch.triu(torch.full((NEW, NEW), float("-inf")), 1)


def step(token, position):
    """The next token; keys and values go to their place."""
    x, bias = EMBEDDING[token], MASKED.index_select(1, position)
    for layer in LAYERS:
        q, k, v = (norm(x, layer.norms[0]) @ layer.qkv.T).view(3, HEADS, 1, SIZE).unbind(0)
        layer.keys.index_copy_(1, position, k)
        layer.values.index_copy_(1, position, v)
        x = x + attend(q, layer.keys, layer.values, bias) @ layer.o.T
        q = (norm(x, layer.norms[1]) @ layer.cross_q.T).view(HEADS, 1, SIZE)
        x = x + attend(q, layer.cross_keys, layer.cross_values, None) @ layer.cross_o.T
        x = feed(x, layer)
    return torch.argmax(norm(x, FINAL) * SCALE @ HEAD.T, -1)


def by_steps(fn):
    token, tokens = torch.zeros(1, dtype=torch.long), []
    for position in range(NEW):
        token = fn(token, torch.tensor([position]))
        tokens.append(token.item())
    return tokens


# ---- as an ONNX graph


class Graph:
    def __init__(self):
        self.nodes, self.weights = [], []

    def add(self, op, inputs, outputs=1, **attributes):
        from onnx import helper

        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value):
        from onnx import numpy_helper

        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value.contiguous().numpy(), name))
        return name

    def product(self, x, weight):
        return self.add("MatMul", [x, self.constant(weight.T)])

    def normed(self, x, weight):
        return self.add("SimplifiedLayerNormalization", [x, self.constant(weight)], axis=-1, epsilon=config.layer_norm_epsilon)

    def shaped(self, x, *shape):
        return self.add("Reshape", [x, self.constant(torch.tensor(shape))])

    def attention(self, q, keys, values, bias):
        scores = self.add("MatMul", [q, self.add("Transpose", [keys], perm=[0, 2, 1])])
        if bias:
            scores = self.add("Add", [scores, bias])
        return self.shaped(self.add("MatMul", [self.add("Softmax", [scores], axis=-1), values]), 1, -1)

    def feed(self, x, layer):
        h = self.normed(x, layer.norms[2])
        if layer.gated:
            half = layer.wi.shape[0] // 2
            gelu = self.add("Gelu", [self.product(h, layer.wi[:half])], approximate="tanh")
            h = self.add("Mul", [gelu, self.product(h, layer.wi[half:])])
        else:
            h = self.add("Relu", [self.product(h, layer.wi)])
        return self.add("Add", [x, self.product(h, layer.wo)])


def onnx_session():
    import onnxruntime
    from onnx import TensorProto, helper

    g, inputs, outputs = Graph(), [("token", TensorProto.INT64, [1]), ("bias", TensorProto.FLOAT, [HEADS, 1, None])], []
    x = g.add("Gather", [g.constant(EMBEDDING), "token"])
    for i, layer in enumerate(LAYERS):
        qkv = g.product(g.normed(x, layer.norms[0]), layer.qkv)
        q, k, v = (g.shaped(part, HEADS, 1, SIZE) for part in g.add("Split", [qkv], 3, axis=-1, num_outputs=3))
        grown = []
        for name, new in ((f"keys{i}", k), (f"values{i}", v)):
            inputs.append((name, TensorProto.FLOAT, [HEADS, None, SIZE]))
            grown.append(g.add("Concat", [name, new], axis=1))
        outputs += grown
        x = g.add("Add", [x, g.product(g.attention(q, *grown, "bias"), layer.o)])
        q = g.shaped(g.product(g.normed(x, layer.norms[1]), layer.cross_q), HEADS, 1, SIZE)
        y = g.attention(q, g.constant(layer.cross_keys), g.constant(layer.cross_values), None)
        x = g.feed(g.add("Add", [x, g.product(y, layer.cross_o)]), layer)
    logits = g.product(g.normed(x, FINAL * SCALE), HEAD)
    outputs.insert(0, g.add("ArgMax", [logits], axis=-1, keepdims=0))
    kinds = [TensorProto.INT64] + [TensorProto.FLOAT] * (len(outputs) - 1)
    graph = helper.make_graph(
        g.nodes, "step", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outputs, kinds)], g.weights,
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads, how.inter_op_num_threads = options.threads, 1
    return onnxruntime.InferenceSession(onnx_model.SerializeToString(), how, providers=["CPUExecutionProvider"])


def onnx_steps():
    import onnxruntime

    session, value = onnx_session(), onnxruntime.OrtValue.ortvalue_from_numpy
    names = [f"{kind}{i}" for i in range(len(LAYERS)) for kind in ("keys", "values")]
    outputs = [output.name for output in session.get_outputs()]
    biases = [value(BIAS[:, i : i + 1, : i + 1].contiguous().numpy()) for i in range(NEW)]
    empty = value(torch.zeros(HEADS, 0, SIZE).numpy())

    def run():
        feed, tokens = dict.fromkeys(names, empty), []
        feed["token"] = value(torch.zeros(1, dtype=torch.long).numpy())
        for i in range(NEW):
            feed["bias"] = biases[i]
            made = session.run_with_ort_values(outputs, feed)
            feed = dict(zip(["token"] + names, made))
            tokens.append(int(made[0].numpy()[0]))
        return tokens

    return run


# ---- times


def median_us(fn):
    fn()
    times = []
    for _ in range(options.runs):
        begun = time.perf_counter()
        fn()
        times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) // 2] * 1e6


def generate_us():
    """Of a step: what more tokens take, so that the encoder does not count."""
    return (median_us(lambda: generate(NEW)) - median_us(lambda: generate(1))) / (NEW - 1)


EXPECTED = generate(NEW)


def say(mode, us, version):
    print(json.dumps({
        "mode": mode, "shape": options.shape, "beams": options.beams, "src": options.source, "new": NEW,
        "us_per_token": round(us, 1), "threads": options.threads, "version": version,
    }), flush=True)


def steps_us(mode, run):
    if run() != EXPECTED:
        print(f"{mode}: other tokens than generate's", file=sys.stderr)
    return median_us(run) / NEW


for mode in options.modes.split(","):
    if mode == "generate":
        say(mode, generate_us(), "torch " + torch.__version__)
    elif options.beams > 1:
        continue
    elif mode == "eager":
        say(mode, steps_us(mode, lambda: by_steps(step)), "torch " + torch.__version__)
    elif mode == "compiled":
        fast = torch.compile(step)
        say(mode, steps_us(mode, lambda: by_steps(fast)), "torch " + torch.__version__)
    elif mode == "onnx":
        import onnxruntime

        say(mode, steps_us(mode, onnx_steps()), "onnxruntime " + onnxruntime.__version__)
    else:
        sys.exit(f"t5.py: no mode {mode}: generate, eager, compiled and onnx are known")
