"""Holds lines of JSON on standard input against a schema. What is wrong is printed, and the status is 1.

`--known`: fields that the schema does not name are wrong too. It allows them, for the sake of versions to come.
"""
import json
import sys

from jsonschema import Draft202012Validator


def closed(schema, is_part=False):
    """The schema without room for unknown fields. A part of an object (allOf) leaves room for the other parts."""
    if isinstance(schema, list):
        return [closed(one, is_part) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            # An entry of $defs is closed where it is referred to.
            result[key] = {name: closed(one, key == "$defs") for name, one in value.items()}
        elif key == "allOf":
            result[key] = closed(value, True)
        elif key in ("items", "anyOf"):
            result[key] = closed(value)
        else:
            result[key] = value
    # A map of names that are not known beforehand says itself what its values are.
    is_map = "additionalProperties" in definitions.get(schema.get("$ref", "").rpartition("/")[2], {})
    if not is_part and not is_map and ("$ref" in schema or "properties" in schema):
        result["unevaluatedProperties"] = False
    return result


schema = json.load(open(sys.argv[1], encoding="utf-8"))
definitions = schema["$defs"]
if "--known" in sys.argv:
    schema = closed(schema)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
lines = [line for line in sys.stdin if line.strip()]
wrong = [] if lines else ["there is no line"]
for line in lines:
    for error in validator.iter_errors(json.loads(line)):
        wrong.append(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
