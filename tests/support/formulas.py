"""Computes a formula as an explanation shows it: arithmetic and the functions that it may have, nothing else."""

import ast
import math
import operator
from collections.abc import Callable

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def lambert_w0(x: float) -> float:
    """The main branch of Lambert's W from -1/e to 0, from its expansion about the branch point, by Halley's steps."""
    p = math.sqrt(max(2 * (math.e * x + 1), 0.0))
    w = -1 + p - p * p / 3 + 11 / 72 * p**3
    for _ in range(50):
        if w == -1:
            break
        excess = w * math.exp(w) - x
        slope = math.exp(w) * (w + 1) - (w + 2) * excess / (2 * w + 2)
        w -= excess / slope
    return w


_FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "lambert_w0": lambert_w0,
}


def computed(formula: str) -> float:
    """Its value; ValueError where it is anything but arithmetic on numbers."""
    return _value(ast.parse(formula, mode="eval").body)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_value, arguments))
        case _:
            raise ValueError(f"No arithmetic: {ast.unparse(node)}")
