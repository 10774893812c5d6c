// A sweep over rows whose values lie bin by bin (persistent/propagation_blocking.cuh): a lane sums a strand, which is a row, or a part of a long one.
//
// The values of a bin are copied to shared memory, where 16 bits name one; those of the next bin are on their way
// meanwhile. Of a bin one section after the other is summed: as many strands as there is room for sums. Those of about the
// same length make up a pack, one a lane of a warp, which adds up four values of each at a time. What they come to lies in
// shared memory by row until all of a section is there; then threads finish its rows in order.
#pragma once
#include "base/shared_staging.cuh"
#include "persistent/segmented_sum.cuh"

namespace cpms {

struct Strands {
    const u32* of_block;       // first section of each block, and behind the last
    const u32* bins;           // bin of each section
    const u32* value_begins;   // in groups of values, of each bin, and behind the last; multiples of 4
    const u32* strand_begins;  // first strand of each section, and behind the last
    const u32* first_rows;     // row of that strand; behind the last section, how many there are
    const Pair* walks;         // first pack, and its first round, of each warp of each block
    const u32* packs;          // rounds of each, and whether it is a warp's last of a section; a warp has one of each, or more
    const u16* strands;        // of each lane of each pack, among those of its section; or none
    const u16* places;         // by round, then by lane, of four values among those of a bin
    const u16* last_strands;   // of each row among those of its section; null where rows are strands
    const u32* first_blocks;   // block in which the first row of each block begins
    u32 capacity;              // groups that a bin has at most, and a last one, where places of nothing are
    TaskPieces pieces;         // one a block, of rows that go on in the next

    static constexpr u32 last_of_section = 1u << 31;
    static constexpr u16 no_strand = 0xFFFF;
};

constexpr u32 most_sums = 2560;  // of a section
// Shared memory of warps, where walks over sources do not use it else: sums of two sections.
struct RoomForSums : Room {
    alignas(16) double sums[2 * most_sums];
    static_assert(sizeof(RoomFor<resident_threads>::of_warps) <= sizeof(sums), "no room for walks over sources");
};

// Shared memory in which values come and go, of two bins at a time.
template <class Word>
struct BinValues {
    u32 capacity;

    CPMS_DEVICE Word* of(u32 bin) const { return values_of<Word>(bin, capacity); }
    CPMS_DEVICE void fetch(const u8* dealt, u32 bin, u32 begin, u32 end) const {
        constexpr u32 bytes = group_nodes * sizeof(Word), together = 16;
        const u32 copies = (end - begin) * bytes / together;
        const u8* const from = dealt + (u64)begin * bytes;
        const SomeKept kept;
#pragma unroll 4
        for (u32 i = threadIdx.x; i < copies; i += blockDim.x) {
            copy_quad_ahead((u8*)of(bin) + i * together, from + i * together, kept);
        }
    }
    // What places of nothing name.
    CPMS_DEVICE void clear_last() const {
        if (threadIdx.x < 2) of(threadIdx.x)[capacity * group_nodes - 1] = Word(0);
    }
};

// A warp's packs, one after the other: a lane's part of the next one is on its way.
struct Packs {
    static constexpr u32 ahead = 6, expected = 12;  // rounds that are loaded; rounds, and packs, that the cache has by then
    static constexpr u32 together = 4;              // of rounds beyond those, that are on their way
    u32 pack, round, word, strand, next_word, next_strand;
    Run<8> places[ahead];

    CPMS_DEVICE void begin(const Strands& of) {
        const Pair at = load_word(of.walks + blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, ReadOnly{});
        pack = at.word[0];
        round = at.word[1];
        look_ahead(of, pack);
        load(of);
    }
    // Adds up the packs of a section.
    template <class F, class Word>
    CPMS_DEVICE void sum(const Strands& of, const Word* values, double* sums) {
        bool more;
        do {
            const u32 rounds = word & ~Strands::last_of_section, mine = strand, first = round;
            more = !(word & Strands::last_of_section);
            Run<8> now[ahead];
#pragma unroll
            for (u32 j = 0; j < ahead; ++j) now[j] = places[j];
            round += rounds;
            ++pack;
            load(of);
            double even = 0.0, odd = 0.0;
#pragma unroll
            for (u32 j = 0; j < ahead; ++j) {
                if (j < rounds) add<F>(values, now[j], even, odd);
            }
            for (u32 r = first + ahead; r < first + rounds; r += together) {
                Run<8> more_places[together];
#pragma unroll
                for (u32 j = 0; j < together; ++j) more_places[j] = places_of(of, smaller(r + j, first + rounds - 1));
#pragma unroll
                for (u32 j = 0; j < together; ++j) {
                    if (r + j < first + rounds) add<F>(values, more_places[j], even, odd);
                }
            }
            if (mine != Strands::no_strand) sums[mine] = even + odd;
        } while (more);
    }

  private:
    static CPMS_DEVICE Run<8> places_of(const Strands& of, u32 round) {
        return load_run_bytes<8>((const u8*)of.places + ((u64)round * 32 + threadIdx.x % 32) * 8, Streaming{});
    }
    CPMS_DEVICE void look_ahead(const Strands& of, u32 to) {
        next_word = load_word(of.packs + to, Streaming{});
        next_strand = load_word(of.strands + (u64)to * 32 + threadIdx.x % 32, Streaming{});
    }
    CPMS_DEVICE void load(const Strands& of) {
        word = next_word;
        strand = next_strand;
        const u32 rounds = word & ~Strands::last_of_section;
#pragma unroll
        for (u32 j = 0; j < ahead; ++j) {
            if (j < rounds) places[j] = places_of(of, round + j);
        }
        const u32 line = threadIdx.x % 32;
        if (line < 2 * rounds) fetch_ahead(of.places + ((u64)(round + expected) * 128 + line * 64));
        if (line == 31 && pack % 2 == 0) fetch_ahead(of.strands + (u64)(pack + expected) * 32);
        look_ahead(of, pack + 1);
    }
    template <class F, class Word>
    static CPMS_DEVICE void add(const Word* values, const Run<8>& four, double& even, double& odd) {
        Word word[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) word[k] = values[four.template field<16>(k)];
        even += Raw<F>::value(word[0]);
        odd += Raw<F>::value(word[1]);
        even += Raw<F>::value(word[2]);
        odd += Raw<F>::value(word[3]);
    }
};

// What goes on from section to section, where rows have more than a strand: what the row has got that is open, and what the
// block's first one had got, which began before the block did. Volatile, or compilers let threads read it that do not need
// it, as the first warp writes it.
struct Open {
    volatile double sum;
    double first_head;
    u32 first;  // or none
};

// The rows that end in a section, some a thread at a time: what is read of the first ones is on its way before their sums
// are there.
template <class Word, class AtEnd>
struct EndingRows {
    static constexpr u32 together = sizeof(Word) == 8 ? 2 : 5;
    u32 row, count;
    typename AtEnd::Loaded loaded[together];

    // 16 float64 values that lie side by side share a line.
    CPMS_DEVICE void expect(const Strands& of, const AtEnd& at_end) const {
        for (u32 i = 16 * threadIdx.x; i < count; i += 16 * blockDim.x) {
            at_end.expect(row + i);
            if (of.last_strands) fetch_ahead(of.last_strands + row + i);
        }
    }
    CPMS_DEVICE void load(u32 base, const AtEnd& at_end) {
#pragma unroll
        for (u32 j = 0; j < together; ++j) {
            const u32 i = base + j * blockDim.x;
            if (i < count) loaded[j] = at_end.load(row + i);
        }
    }
    CPMS_DEVICE void finish(const Strands& of, const double* sums, Open& open, AtEnd& at_end) {
        for (u32 base = threadIdx.x; base < count; base += together * blockDim.x) {
            if (base >= together * blockDim.x) load(base, at_end);
#pragma unroll
            for (u32 j = 0; j < together; ++j) {
                const u32 i = base + j * blockDim.x;
                if (i >= count) break;
                const double sum = of.last_strands ? sum_of(of, i, sums, open) : sums[i];
                if (i == 0 && row == open.first) {
                    open.first_head = sum;
                } else {
                    at_end.finish(row + i, sum, loaded[j]);
                }
            }
        }
    }
    // The strands behind them are of a row that is open. By the warp that finished the first row.
    CPMS_DEVICE void leave_open(const Strands& of, u32 strands, const double* sums, Open& open) const {
        __syncwarp();
        double sum = 0.0;
        for (u32 strand = behind(of, count) + threadIdx.x % 32; strand < strands; strand += 32) sum += sums[strand];
        sum = over_warp(sum, Add{});
        if (threadIdx.x % 32 == 0) open.sum = count ? sum : open.sum + sum;
    }

  private:
    CPMS_DEVICE u32 behind(const Strands& of, u32 i) const { return i ? of.last_strands[row + i - 1] + 1u : 0; }
    CPMS_DEVICE double sum_of(const Strands& of, u32 i, const double* sums, const Open& open) const {
        const u32 end = behind(of, i + 1);
        double sum = i ? 0.0 : open.sum;
        for (u32 strand = behind(of, i); strand < end; ++strand) sum += sums[strand];
        return sum;
    }
};

// Rows of a section are finished before the next one is summed, while other values are on their way.
template <class F, class AtEnd>
CPMS_DEVICE void walk_strands(const Strands& of, Packs& packs, const u8* dealt, RoomForSums& room, AtEnd& at_end) {
    using Word = typename Raw<F>::Word;
    __shared__ Open open;
    const u32 first = of.of_block[blockIdx.x], last = of.of_block[blockIdx.x + 1], from = of.first_blocks[blockIdx.x];
    const u32 last_bin = first < last ? of.bins[last - 1] + 1 : 0;
    const BinValues<Word> values{of.capacity};
    // What is read of sections and bins to come is there when it is needed.
    const auto of_section = [&](const u32* all, u32 section) { return load_word(all + smaller(section, last), ReadOnly{}); };
    const auto begin_of = [&](u32 bin) { return load_word(of.value_begins + smaller(bin, last_bin), ReadOnly{}); };
    u32 row_end = of_section(of.first_rows, first + 1), next_bin = of_section(of.bins, first), bin = next_bin - 1;
    u32 end = begin_of(next_bin + 1), next_end = begin_of(next_bin + 2);
    EndingRows<Word, AtEnd> rows;
    rows.row = of_section(of.first_rows, first);
    rows.count = 0;
    if (threadIdx.x == 0) {
        open.sum = 0.0;
        open.first = from < blockIdx.x ? rows.row : none;
    }
    values.clear_last();
    values.fetch(dealt, next_bin, begin_of(next_bin), end);
    for (u32 section = first; first < last; ++section) {
        rows.load(threadIdx.x, at_end);
        const bool begins_bin = next_bin != bin && section < last;
        if (begins_bin) await_copies();
        __syncthreads();
        if (begins_bin) {
            bin = next_bin;
            values.fetch(dealt, bin + 1, end, next_end);
            end = next_end;
            next_end = begin_of(bin + 3);
        }
        const double* const before = room.sums + (~section & 1) * most_sums;
        rows.finish(of, before, open, at_end);
        if (of.last_strands && threadIdx.x < 32 && section > first) {
            rows.leave_open(of, of.strand_begins[section] - of.strand_begins[section - 1], before, open);
        }
        if (section == last) break;
        rows.row += rows.count;
        rows.count = row_end - rows.row;
        row_end = of_section(of.first_rows, section + 2);
        next_bin = of_section(of.bins, section + 1);
        rows.expect(of, at_end);
        packs.sum<F>(of, values.of(bin), room.sums + (section & 1) * most_sums);
    }
    if (of.last_strands) {
        __syncthreads();
        if (threadIdx.x < 32) {
            // It leaves its own piece before it waits for others.
            if (threadIdx.x == 0) of.pieces.leave(blockIdx.x, open.sum);
            if (open.first < of.first_rows[last]) {
                const typename AtEnd::Loaded loaded = at_end.load(open.first);
                const double sum = open.first_head + of.pieces.collect(from, blockIdx.x, threadIdx.x);
                if (threadIdx.x == 0) at_end.finish(open.first, sum, loaded);
            }
        }
    }
}

}  // namespace cpms

#define CPMS_STRANDS_PARAMETERS(OF)                                                                         \
    const unsigned *OF##of_block, const unsigned *OF##bins, const unsigned *OF##value_begins,               \
        const unsigned *OF##strand_begins, const unsigned *OF##first_rows, const cpms::Pair *OF##walks,     \
        const unsigned *OF##packs,                                                                          \
        const unsigned short *OF##strands, const unsigned short *OF##places,                                \
        const unsigned short *OF##last_strands, const unsigned *OF##first_blocks, unsigned OF##capacity,    \
        unsigned long long *OF##pieces
#define CPMS_STRANDS(OF)                                                                                    \
    cpms::Strands {                                                                                         \
        OF##of_block, OF##bins, OF##value_begins, OF##strand_begins, OF##first_rows, OF##walks, OF##packs,  \
            OF##strands, OF##places, OF##last_strands, OF##first_blocks, OF##capacity,                      \
            cpms::TaskPieces{OF##pieces}                                                                    \
    }
