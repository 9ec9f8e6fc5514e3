"""Holds a file of Parquet against the CSV of the same recording, as DuckDB and pandas read it.

  compare.py CSV PARQUET    fails where a total, or a name, is another one
"""

import csv
import sys
from collections import Counter
from datetime import datetime

import duckdb
import pandas

KEY = ["server_name", "engine", "role", "file", "op", "via"]
COUNTS = ["operations", "errors", "bytes"]


def totals(records):
    sums = Counter()
    for *key, operations, errors, written in records:
        for name, count in zip(COUNTS, (operations, errors, written)):
            sums[*(text or "" for text in key), name] += int(count or 0)
    return {key: count for key, count in sums.items() if count}


def main():
    table, file = sys.argv[1:]
    with open(table, newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = ", ".join(KEY + COUNTS)
    expected = totals([[row[name] for name in KEY + COUNTS] for row in rows])
    connection = duckdb.connect()
    ask = lambda sql: connection.execute(sql, [file]).fetchall()
    assert totals(ask(f"SELECT {columns} FROM read_parquet(?)")) == expected, "totals of DuckDB"
    [(operations,)] = ask("SELECT sum(operations) FROM read_parquet(?)")
    [(in_buckets,)] = ask("SELECT sum(bucket.count) FROM (SELECT unnest(buckets) AS bucket FROM read_parquet(?))")
    assert operations == in_buckets == sum(int(row["operations"]) for row in rows), (operations, in_buckets)
    [(groups,)] = ask("SELECT count(DISTINCT row_group_id) FROM parquet_metadata(?)")

    frame = pandas.read_parquet(file)
    assert list(frame.columns) == [*rows[0], "buckets"], "columns of pandas"
    assert len(frame) == len(rows), "rows of pandas"
    as_records = frame[KEY + COUNTS].astype(object).where(frame[KEY + COUNTS].notna(), None)
    assert totals(as_records.itertuples(index=False)) == expected, "totals of pandas"
    for name in rows[0]:
        for row, cell in zip(rows, frame[name]):
            text = row[name]
            if pandas.isna(cell):
                same = text == ""
            elif name in ("start", "end"):
                same = abs(datetime.fromisoformat(text) - cell.to_pydatetime()).total_seconds() < 0.001
            elif isinstance(cell, str):
                same = cell == text
            elif text in ("true", "false"):
                same = cell == (text == "true")
            else:
                same = float(text) == cell
            assert same, f"{name}: {text!r} in CSV, {cell!r} in Parquet"
    for histogram, count in zip(frame["buckets"], frame["operations"]):
        assert sum(bucket["count"] for bucket in histogram) == count, "buckets of pandas"
    print(f"{len(rows)} rows in {groups} groups, {operations} operations: DuckDB {duckdb.__version__} and "
          f"pandas {pandas.__version__} read what the CSV has")


main()
