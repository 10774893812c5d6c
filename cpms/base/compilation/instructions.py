"""Instructions that compiled loops share, written by LLVM's builder.

Numba compiles its own versions of these as functions, one for each type of arguments, which takes longer than a small
loop does. An instruction costs none of that.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]

from cpms.base.jit import numba

_instruction: Any = numba.extending.intrinsic
_literal_instruction: Any = numba.extending.intrinsic(prefer_literal=True)
_placed: Any = numba.core.cgutils.alloca_once
_types: Any = numba.core.types


@_instruction
def bits_of(typing_context, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the bits of a float64 as uint64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.IntType(64))

    return _types.uint64(_types.float64), generate


@_instruction
def real_of(typing_context, bits):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the float64 with the bits of a uint64 or int64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return builder.bitcast(arguments[0], ir.DoubleType())

    return _types.float64(_types.uint64), generate


@_literal_instruction
def stack_reals(typing_context, count):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return an array of float64 on the stack, valid until the loop ends; its length is a constant."""
    vector, length = _types.Array(_types.float64, 1, "C"), count.literal_value

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        data = _placed(builder, ir.ArrayType(ir.DoubleType(), length))
        array, long = context.make_array(vector)(context, builder), ir.IntType(64)
        pointer = builder.bitcast(data, array.data.type)
        library: Any = numba.np.arrayobj
        shape, size = [ir.Constant(long, length)], ir.Constant(long, 8)
        library.populate_array(array, data=pointer, shape=shape, strides=[size], itemsize=size, meminfo=None)
        return array._getvalue()

    return vector(count), generate


@_literal_instruction
def add_products(typing_context, sums, at, factor, rows, row, width):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Do ``sums[at * width + j] += factor * rows[row * width + j]`` for all j below ``width``, in vector instructions.

    Each product and each sum is rounded, as in scalar instructions. The sums are of float64, and the rows of float32 or
    float64; the width is a constant.
    """
    long, count = ir.IntType(64), width.literal_value
    reals = ir.VectorType(ir.DoubleType(), count)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        def place(array: int, number: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            first = context.cast(builder, arguments[number], signature.args[number], _types.int64)
            at = builder.gep(data, [builder.mul(first, ir.Constant(long, count))])
            return builder.bitcast(at, ir.VectorType(data.type.pointee, count).as_pointer())

        def spread(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(reals, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count))

        read = builder.load(place(3, 4), align=signature.args[3].dtype.bitwidth // 8)
        real = read if read.type == reals else builder.fpext(read, reals)
        of_sums = place(0, 1)
        added = builder.fadd(builder.load(of_sums, align=8), builder.fmul(spread(arguments[2]), real))
        builder.store(added, of_sums, align=8)
        return context.get_dummy_value()

    return _types.none(sums, at, _types.float64, rows, row, width), generate
