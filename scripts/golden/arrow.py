"""Writes a table as pyarrow's stream, for the reader of tests/formats/test_arrow.c."""
import pyarrow as pa
import pyarrow.ipc


def make(out):
    rows = 21                                # three batches; the last one is short
    table = pa.table({
        "list": [["", "ü"][: i % 3] for i in range(rows)],
        "flag": [i % 3 == 0 for i in range(rows)],
        "number": [i * 10**12 - 7 for i in range(rows)],
        "text": ["x" * (i % 5) for i in range(rows)],
    })
    with pa.OSFile(str(out / "table.arrow"), "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        w.write_table(table, max_chunksize=8)
