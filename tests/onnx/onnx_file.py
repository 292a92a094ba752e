"""Reads .onnx files, without the package onnx: protobuf's wire format and the fields that
common/onnx writes (proto/onnx.proto)."""

import collections
import struct

import numpy

TYPES = {1: numpy.float32, 7: numpy.int64}

Node = collections.namedtuple("Node", "op inputs outputs attributes")
Graph = collections.namedtuple("Graph", "opset nodes weights inputs outputs")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """(number, value) of a message, in its order: bytes, or an int; a float of 4 bytes as such."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
            yield number, signed(value)
        elif wire == 5:
            yield number, struct.unpack_from("<f", data, at)[0]
            at += 4
        elif wire == 2:
            length, at = varint(data, at)
            if at + length > len(data):
                raise ValueError(f"a field of {length} bytes at {at} is cut short")
            yield number, data[at:at + length]
            at += length
        else:
            raise ValueError(f"wire type {wire}")


def integers(value):
    """A repeated field's: packed, or one."""
    if isinstance(value, int):
        return [value]
    result, at = [], 0
    while at < len(value):
        one, at = varint(value, at)
        result.append(signed(one))
    return result


def text(value):
    return bytes(value).decode()


def tensor(data):
    dims, name, kind, raw = [], "", 0, b""
    for number, value in fields(data):
        if number == 1:
            dims += integers(value)
        elif number == 2:
            kind = value
        elif number == 8:
            name = text(value)
        elif number == 9:
            raw = value
    return name, numpy.frombuffer(raw, TYPES[kind]).reshape(dims)


def attribute(data):
    name, kind, values, ints = "", 0, {}, []
    for number, value in fields(data):
        if number == 1:
            name = text(value)
        elif number == 8:
            ints += integers(value)
        elif number == 20:
            kind = value
        else:
            values[number] = value
    # proto3 leaves zeros out.
    return name, {1: lambda: values.get(2, 0.0), 2: lambda: values.get(3, 0),
                  3: lambda: text(values.get(4, b"")), 7: lambda: ints}[kind]()


def node(data):
    op, inputs, outputs, attributes = "", [], [], {}
    for number, value in fields(data):
        if number == 1:
            inputs.append(text(value))
        elif number == 2:
            outputs.append(text(value))
        elif number == 4:
            op = text(value)
        elif number == 5:
            name, of_it = attribute(value)
            attributes[name] = of_it
    return Node(op, inputs, outputs, attributes)


def value_name(data):
    return text(dict(fields(data))[1])


def read(path):
    with open(path, "rb") as file:
        data = memoryview(file.read())
    opset, graph = None, Graph(None, [], {}, [], [])
    for number, value in fields(data):
        if number == 8:
            opset = dict(fields(value))[2]
        if number != 7:
            continue
        for inner, part in fields(value):  # the graph comes in pieces
            if inner == 1:
                graph.nodes.append(node(part))
            elif inner == 5:
                name, values = tensor(part)
                if name in graph.weights:
                    raise ValueError(f"{path}: two initializers {name}")
                graph.weights[name] = values
            elif inner == 11:
                graph.inputs.append(value_name(part))
            elif inner == 12:
                graph.outputs.append(value_name(part))
    return graph._replace(opset=opset)
