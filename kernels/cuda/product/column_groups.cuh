// Slices of SELL-32 whose columns are taken in groups: entries of a row in neighbouring columns lie side by side.
//
// A slice of w columns is divided into groups of `Group` of them, then of half as many, and so on: 7 columns into 4, 2
// and 1 where Group is 8 or 4. Slot c of a group of s columns is s * lane + c after the group's first one. A thread so
// loads up to 8 values or offsets at once (cpms/backends/cuda/product/column_groups.py stores them so). Terms are added
// column by column as without groups. Cost: registers for the loaded values, those of up to 32 columns where the width
// is compiled in.
#pragma once
#include "product/row_end.cuh"

namespace cpms {

// Columns of the group with which `left` columns begin.
CPMS_CONSTANT int group_columns(int left, int group) {
    while (group > left) group /= 2;
    return group;
}

// First column of the group that has a column, of `count` in all.
CPMS_CONSTANT int group_begin(int column, int count, int group) {
    int begin = 0;
    while (begin + group_columns(count - begin, group) <= column) begin += group_columns(count - begin, group);
    return begin;
}

// Loads a lane's numbers of `Bytes` bytes in `Count` columns from `columns`, where their first group begins.
template <int Bytes, int Count, int Group, int At = 0>
CPMS_DEVICE void load_groups(const u8* columns, u32 lane, Run<Bytes * Count>& row) {
    constexpr int size = group_columns(Count - At, Group), begin = At * Bytes;
    const auto part = load_run_bytes<size * Bytes>(columns + (u32)(At * 32 + lane * size) * Bytes, Streaming{});
    if constexpr (begin % 4 != 0) {  // groups only shrink: an earlier one has set the word's first bytes
        row.word[begin / 4] |= part.word[0] << (8 * (begin % 4));
    } else {
#pragma unroll
        for (int w = 0; w < part.words; ++w) row.word[begin / 4 + w] = part.word[w];
    }
    if constexpr (At + size < Count) load_groups<Bytes, Count, Group, At + size>(columns, lane, row);
}

// Bases of `Count` compressed columns; four at a time where each slice's begin at a multiple of four.
template <bool Fours, int Count>
CPMS_DEVICE void load_bases(const u32* bases, u32 (&base)[Count]) {
    if constexpr (Fours) {
#pragma unroll
        for (int k = 0; k < Count; k += 4) {
            const Quad four = load_word((const Quad*)(bases + k), ReadOnly{});
#pragma unroll
            for (int c = k; c < Count && c < k + 4; ++c) base[c] = four.word[c - k];
        }
    } else {
#pragma unroll
        for (int k = 0; k < Count; ++k) base[k] = load_word(bases + k, ReadOnly{});
    }
}

// `Count` columns of a row, from slot `slot` of lane 0 on: indices and values of all, then x some columns at a time.
template <class T, int Count, int Group, int OffsetBits, bool Fours>
CPMS_DEVICE void multiply_groups(const Product& p, const void* columns, const u32* bases, u64 slot, u32 lane,
                                 typename T::Real (&sum)[T::N]) {
    using V = typename T::V;
    constexpr int bytes = OffsetBits ? OffsetBits / 8 : sizeof(typename T::Index), value_bytes = InRuns<V>::bytes;
    constexpr int batches = (Count + 8) / 9, each = (Count + batches - 1) / batches;  // nine gathers at most in flight
    Run<bytes * Count> numbers;
    load_groups<bytes, Count, Group>((const u8*)columns + slot * bytes, lane, numbers);
    u32 base[Count] = {};
    if constexpr (OffsetBits != 0) load_bases<Fours>(bases, base);
    Run<(value_bytes ? value_bytes : 1) * Count> values;
    typename T::RawV apart[value_bytes ? 1 : Count];
    if constexpr (value_bytes != 0) {
        const u8* const begin = p.values + InRuns<V>::first + slot * value_bytes;
        load_groups<value_bytes, Count, Group>(begin, lane, values);
    } else {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
            const int begin = group_begin(c, Count, Group), size = group_columns(Count - begin, Group);
            apart[c] = T::load_value(p, slot + begin * 32 + lane * size + (c - begin));
        }
    }
#pragma unroll
    for (int first = 0; first < Count; first += each) {
        const int used = least(each, Count - first);
        typename T::Index column[each];
        typename T::RawV value[each];
#pragma unroll
        for (int c = 0; c < each; ++c) {
            if (c >= used) continue;
            column[c] = (typename T::Index)numbers.template field<8 * bytes>(first + c) + base[first + c];
            if constexpr (value_bytes != 0) {
                value[c] = raw_in_run<V>(values, first + c);
            } else {
                value[c] = apart[first + c];
            }
        }
        add_products<T>(p, column, value, used, sum);
    }
}

// A slice of a width that is known when the kernel is compiled.
template <class T, int Width, int Group, int OffsetBits, int At = 0>
CPMS_DEVICE void multiply_groups_of(const Product& p, const void* columns, const u32* bases, u64 slot, u32 lane,
                                    typename T::Real (&sum)[T::N]) {
    constexpr int count = least(32, Width - At);
    multiply_groups<T, count, Group, OffsetBits, true>(p, columns, bases + At, slot + At * 32, lane, sum);
    if constexpr (At + count < Width) {
        multiply_groups_of<T, Width, Group, OffsetBits, At + count>(p, columns, bases, slot, lane, sum);
    }
}

// A slice of any width: whole groups, then smaller ones.
template <class T, int Count, int Group, int OffsetBits>
CPMS_DEVICE void multiply_groups_up_to(const Product& p, const void* columns, const u32* bases, u64 k, u64 width,
                                       u64 slot, u32 lane, typename T::Real (&sum)[T::N]) {
    for (; k + Count <= width; k += Count) {
        multiply_groups<T, Count, Group, OffsetBits, false>(p, columns, bases + k, slot + k * 32, lane, sum);
    }
    if constexpr (Count > 1) {
        multiply_groups_up_to<T, Count / 2, Group, OffsetBits>(p, columns, bases, k, width, slot, lane, sum);
    }
}

template <class T, int Width, int Group, int OffsetBits>
CPMS_DEVICE void multiply_grouped_slice(const Product& p, const void* columns, const u32* bases, u64 width, u64 slot,
                                        u32 lane, typename T::Real (&sum)[T::N]) {
    if constexpr (Width > 0) {
        multiply_groups_of<T, Width, Group, OffsetBits>(p, columns, bases, slot, lane, sum);
    } else {
        multiply_groups_up_to<T, 8, Group, OffsetBits>(p, columns, bases, 0, width, slot, lane, sum);
    }
}

}  // namespace cpms
