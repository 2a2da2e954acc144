"""The types of a schema as protobuf messages, so that CEL's checker finds wrong names and types when a CRD is created.

Only the checker sees them: rules are evaluated on plain JSON values. Protobuf cannot say "list of lists" and the like;
there the inner value is dynamic, and a mistake inside shows when the rule is evaluated.
"""

from itertools import count
from typing import Any, Final

from devkube.custom import library
from devkube.custom.views import Type

_PACKAGE: Final = "crd"
_WELL_KNOWN: Final = {
    "dyn": ".google.protobuf.Value",
    "list": ".google.protobuf.ListValue",
    "map": ".google.protobuf.Struct",
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
}


class Checkable:
    """A descriptor pool with one message per object type, and the CEL type of any `Type` of the same schema."""

    def __init__(self, root: Type) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

        needed = [module.DESCRIPTOR for module in (struct_pb2, timestamp_pb2, duration_pb2)]
        self._names: dict[int, str] = {}
        self._kept: list[Type] = []  # names are by identity: nothing named may be collected
        self._numbers = count()
        self._field = descriptor_pb2.FieldDescriptorProto
        self._file = descriptor_pb2.FileDescriptorProto(
            name="crd.proto", package=_PACKAGE, syntax="proto3", dependency=[one.name for one in needed]
        )
        self._add(root)
        self.pool = descriptor_pool.DescriptorPool()
        for one in needed:
            self.pool.AddSerializedFile(one.serialized_pb)
        for name in library.OPAQUE:
            package, _, short = name.rpartition(".")
            opaque = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
            opaque.message_type.add(name=short)
            self.pool.AddSerializedFile(opaque.SerializeToString())
        self.pool.AddSerializedFile(self._file.SerializeToString())

    def _add(self, seen: Type) -> None:
        if seen.of is not None:
            self._add(seen.of)
        if seen.kind != "object" or id(seen) in self._names:
            return
        self._names[id(seen)] = name = f"Object{next(self._numbers)}"
        self._kept.append(seen)
        for below in seen.fields.values():
            self._add(below)
        message = self._file.message_type.add(name=name)
        for number, (field, below) in enumerate(seen.fields.items(), 1):
            # Field names may differ in case or underscores only: JSON names of our own keep protobuf from minding.
            self._set(message, message.field.add(name=field, number=number, json_name=f"f{number}"), below)

    def _set(self, message: Any, field: Any, seen: Type) -> None:
        of = seen.of
        if seen.kind == "list" and of is not None:
            field.label = self._field.LABEL_REPEATED
            self._scalar(field, of)
        elif seen.kind == "map" and of is not None:
            field.label = self._field.LABEL_REPEATED
            field.type = self._field.TYPE_MESSAGE
            entry = message.nested_type.add(name=_entry(field.name))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=self._field.TYPE_STRING, label=self._field.LABEL_OPTIONAL)
            self._scalar(entry.field.add(name="value", number=2, label=self._field.LABEL_OPTIONAL), of)
            field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        else:
            field.label = self._field.LABEL_OPTIONAL
            self._scalar(field, seen)

    def _scalar(self, field: Any, seen: Type) -> None:
        plain = {
            "int": self._field.TYPE_INT64,
            "double": self._field.TYPE_DOUBLE,
            "bool": self._field.TYPE_BOOL,
            "string": self._field.TYPE_STRING,
            "bytes": self._field.TYPE_BYTES,
        }
        field.type = plain.get(seen.kind, self._field.TYPE_MESSAGE)
        if seen.kind == "object":
            field.type_name = f".{_PACKAGE}.{self._names[id(seen)]}"
        elif seen.kind in _WELL_KNOWN:
            field.type_name = _WELL_KNOWN[seen.kind]

    def cel(self, seen: Type) -> Any:
        """The cel_expr_python type of a value of this schema."""
        from cel_expr_python import cel

        if seen.kind == "object":
            return cel.Type(f"{_PACKAGE}.{self._names[id(seen)]}")
        if seen.of is not None:
            of = self.cel(seen.of)
            return cel.Type.List(of) if seen.kind == "list" else cel.Type.Map(cel.Type.STRING, of)
        return getattr(cel.Type, seen.kind.upper())


def _entry(field: str) -> str:
    """The name that protobuf demands of a map's entry: the field's in camel case."""
    made, upper = "", True
    for char in field:
        if char == "_":
            upper = True
        else:
            made, upper = made + (char.upper() if upper else char), False
    return made + "Entry"
