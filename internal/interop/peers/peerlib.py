"""What the drivers of all peers share: the loop over line-delimited JSON, and
rows of deltafold's JSON encoding to and from Arrow.

A request is one JSON object on standard input with the member "cmd"; the answer
is one JSON object on standard output: {"ok": result}, or {"error": text,
"type": name}. A peer prints whatever else it has to say on standard error.

Encoding of values: integers as JSON integers; floats as JSON numbers, "NaN",
"Infinity", "-Infinity"; decimals as strings with exactly their scale; binary as
lower-case hex; dates as YYYY-MM-DD; timestamps in UTC with six digits and Z,
timestamp_ntz without the Z; arrays as arrays, structs as objects, maps as
{"$map": [[key, value], …]}.
"""

import datetime
import decimal
import json
import math
import os
import struct
import sys
import traceback

import pyarrow as pa

# Answers go to a descriptor of their own. Whatever else writes to standard output,
# in this process or one that it starts (the Java machine's warnings do), goes to
# standard error. NB: import this module before anything starts a process.
ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


# --- types -----------------------------------------------------------------

SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def split_top(text, separator=","):
    """Splits at separators that stand outside <…> and (…)."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "<(":
            depth += 1
        elif c in ">)":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts]


def arrow_type(text):
    """The Arrow type of a Delta type written as DDL (long, array<int>, …)."""
    text = text.strip()
    if text in SIMPLE:
        return SIMPLE[text]
    name, _, rest = text.partition("<") if "<" in text else text.partition("(")
    inner = rest[:-1]
    if name == "decimal":
        precision, scale = inner.split(",")
        return pa.decimal128(int(precision), int(scale))
    if name == "array":
        return pa.list_(arrow_type(inner))
    if name == "map":
        key, value = split_top(inner)
        return pa.map_(arrow_type(key), arrow_type(value))
    if name == "struct":
        fields = []
        for field in split_top(inner):
            field_name, field_type = split_top(field, ":")
            fields.append(pa.field(field_name, arrow_type(field_type)))
        return pa.struct(fields)
    raise ValueError(f"unknown type {text!r}")


def arrow_schema(columns):
    """The Arrow schema of [[name, type], …]."""
    return pa.schema([pa.field(name, arrow_type(t)) for name, t in columns])


def sql_type(text):
    """The same DDL in words that every SQL peer knows."""
    words = {"byte": "tinyint", "short": "smallint", "long": "bigint", "integer": "int"}
    out, word = [], ""
    for c in text + "\0":
        if c.isalnum() or c == "_":
            word += c
            continue
        out.append(words.get(word, word))
        word = ""
        out.append(c)
    return "".join(out)[:-1]


def sql_columns(columns):
    return ", ".join(f"`{name}` {sql_type(t)}" for name, t in columns)


# --- values ----------------------------------------------------------------


def decode(value, t):
    """A Python value that pyarrow takes for type t, from its JSON encoding."""
    if value is None:
        return None
    if pa.types.is_floating(t):
        return float(value)
    if pa.types.is_decimal(t):
        return decimal.Decimal(str(value))
    if pa.types.is_binary(t):
        return bytes.fromhex(value)
    if pa.types.is_date(t):
        return datetime.date.fromisoformat(value)
    if pa.types.is_timestamp(t):
        stamp = datetime.datetime.fromisoformat(value.rstrip("Z"))
        return stamp.replace(tzinfo=datetime.timezone.utc) if t.tz else stamp
    if pa.types.is_list(t):
        return [decode(v, t.value_type) for v in value]
    if pa.types.is_struct(t):
        return {f.name: decode(value.get(f.name), f.type) for f in t}
    if pa.types.is_map(t):
        return [(decode(k, t.key_type), decode(v, t.item_type)) for k, v in value["$map"]]
    return value


def table_from_rows(columns, rows):
    """An Arrow table of encoded rows; a member that is missing is NULL."""
    schema = arrow_schema(columns)
    arrays = [pa.array([decode(r.get(f.name), f.type) for r in rows], f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def encode_float(value, single):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not single:
        return value
    for digits in range(1, 10):  # the shortest text that is this float32
        rounded = float(f"{value:.{digits}g}")
        try:
            if struct.pack("<f", rounded) == struct.pack("<f", value):
                return rounded
        except OverflowError:  # rounded up beyond the largest float32
            pass
    return value


def encode_timestamp(micros, zone):
    stamp = EPOCH + micros * MICROSECOND
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0") + ("Z" if zone else "")


UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def encode_scalar(s):
    """The JSON encoding of a pyarrow scalar, whatever variant of the type it is."""
    t = s.type
    if not s.is_valid:
        return None
    if pa.types.is_dictionary(t):
        return encode_scalar(s.value)
    if pa.types.is_floating(t):
        return encode_float(s.as_py(), pa.types.is_float32(t))
    if pa.types.is_decimal(t):
        return format(s.as_py(), "f")
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return s.as_py().hex()
    if pa.types.is_date(t):
        return s.as_py().isoformat()
    if pa.types.is_timestamp(t):
        micros = s.value // 1000 if t.unit == "ns" else s.value * UNITS[t.unit]
        return encode_timestamp(micros, t.tz)
    if pa.types.is_map(t):
        pairs = s.values
        keys, items = pairs.field(0), pairs.field(1)
        return {"$map": [[encode_scalar(k), encode_scalar(v)] for k, v in zip(keys, items)]}
    if isinstance(t, (pa.ListType, pa.LargeListType, pa.ListViewType)):
        return [encode_scalar(v) for v in s.values]
    if pa.types.is_struct(t):
        return {t.field(i).name: encode_scalar(s[i]) for i in range(t.num_fields)}
    return s.as_py()


def rows_from_table(table):
    columns = [(name, table.column(i)) for i, name in enumerate(table.column_names)]
    return [{name: encode_scalar(col[r]) for name, col in columns} for r in range(table.num_rows)]


# --- the loop --------------------------------------------------------------


def serve(commands):
    """Answers requests until standard input ends."""
    for line in sys.stdin:
        if not line.strip():
            continue
        request = json.loads(line)
        name = request.pop("cmd")
        try:
            answer = {"ok": commands[name](**request)}
        except Exception as e:  # the test decides what an error means
            if os.environ.get("DELTAFOLD_PEER_TRACE"):
                traceback.print_exc()
            answer = {"error": str(e)[:4000], "type": type(e).__name__}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()


def named_statements(path):
    """The statements of an SQL file in which '-- name: x' starts each one."""
    statements, name = {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("-- name: "):
                name = line.split(":", 1)[1].strip()
                statements[name] = ""
            elif name and not line.lstrip().startswith("--"):
                statements[name] += line
    return statements
