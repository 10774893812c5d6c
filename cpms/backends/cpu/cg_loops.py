"""Compiled passes over the vectors of conjugate gradients, each of which reads what it needs once; sums are float64."""

from __future__ import annotations

from cpms.base.jit import compiled


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def curvature(p, q, low, high):  # type: ignore[no-untyped-def]
    """Return p.q."""
    total = 0.0
    for i in range(low, high):
        total += float(p[i]) * float(q[i])
    return total


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def update(x, r, p, q, alpha, low, high):  # type: ignore[no-untyped-def]
    """Do x += alpha p and r -= alpha q; return r.r and r.q of what is stored."""
    square = of_residual = 0.0
    for i in range(low, high):
        x[i] += alpha * float(p[i])
        r[i] = float(r[i]) - alpha * float(q[i])
        value = float(r[i])
        square += value * value
        of_residual += value * float(q[i])
    return square, of_residual


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})
def direction(r, p, beta, low, high):  # type: ignore[no-untyped-def]
    """Do p = r + beta p; return r.p of what is stored."""
    total = 0.0
    for i in range(low, high):
        p[i] = float(r[i]) + beta * float(p[i])
        total += float(r[i]) * float(p[i])
    return total
