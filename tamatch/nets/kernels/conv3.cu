// A 3 x 3 convolution of C to C channels together with its neighbours in a residual net:
// forward BatchNorm and activation in front of it, the sum and the next BatchNorm's statistics
// behind it; backward the gradient of the BatchNorm behind it in front of the one of the maps, then the
// activation's gradient and the sums for the BatchNorm before it.
//
// A block computes a tile of an image from a copy in shared memory that has a border of one pixel.
// A tap of the convolution is a matrix product whose rows are the copy's pixels moved by the tap.
// Maps are channels-last in bfloat16, weights (C, 3, 3, C); `primitives.cuh` stands before this text.
// Every other layer goes through the map `upside_down`: what was written last is still near.
//
// No access leaves its tensor. A map is whole tiles (`cuda.fits`), so that all pixels of a tile exist;
// those of its border are read where `has_row` and `has` say so, and the addresses of others are not
// used. Of weights, C rows of TAPS * CHUNKS pieces, `fetch_weights` reads all. `tiles` has a row for
// each block, `totals` for each of at most GROUPS groups, `arrived` GROUPS + 1 numbers. What is kept by
// channel is read at `thread() % C` and at `chunk * 8 + j`, which are below C.
//
// Instructions are what costs time here, so that each thread has one column of the tile and eight
// channels, and what is left to compute of addresses are constants.

constexpr int THREADS = 128, WARPS = THREADS / 32, TAPS = 9;
// The sums of neighbouring tiles are put together by the last of them to end, in at most so many rows.
// GROUPS and SLOPE, the activation's below zero, are given when this is compiled.

DEVICE void unpack(const Piece &piece, float (&values)[8]) {
    UNROLL for (int i = 0; i < 4; ++i) {
        values[2 * i] = as_float(piece.pairs[i] << 16);
        values[2 * i + 1] = as_float(piece.pairs[i] & 0xffff0000u);
    }
}
DEVICE Piece pack(const float (&values)[8]) {
    Piece piece;
    UNROLL for (int i = 0; i < 4; ++i) piece.pairs[i] = pack(values[2 * i], values[2 * i + 1]);
    return piece;
}

// How far a piece is moved within its pixel, so that eight neighbours in a row use all memory banks.
template <int CHUNKS>
DEVICE int moved(int column) {
    return CHUNKS == 4 ? column >> 1 & 3 : column & 7;
}

template <int C>
struct Tile {
    static constexpr int ROWS = 8, COLUMNS = 1024 / C, POSITIONS = ROWS * COLUMNS;
    static constexpr int TALL = ROWS + 2, WIDE = COLUMNS + 2;  // of the copy
    static constexpr int CHUNKS = C / 8;  // a pixel's channels in pieces of 16 bytes
    static constexpr int SIDES = (2 * TALL * CHUNKS + THREADS - 1) / THREADS;  // a thread's, of the border
    static constexpr int SLOTS = C == 32 ? TAPS : 2;  // taps whose weights are there at a time
    static constexpr int M = POSITIONS / WARPS / 16, N = C / 8, K = C / 16;  // of a warp's product
    static_assert(THREADS / CHUNKS == COLUMNS && POSITIONS / WARPS == 2 * COLUMNS, "");

    static DEVICE int at(int row, int column, int chunk) {
        return (row * WIDE + column) * CHUNKS + (chunk ^ moved<CHUNKS>(column));
    }
};

DEVICE void copy_or_clear(bool there, Piece *to, const Piece *from) {
    if (there)
        copy_piece(spot(to), from);
    else
        *to = NOTHING;
}

template <int C>
struct alignas(128) Shared {  // a pixel's pieces differ in their addresses' last bits alone
    Piece tile[Tile<C>::TALL * Tile<C>::WIDE * Tile<C>::CHUNKS];
    Piece weights[Tile<C>::SLOTS * C * Tile<C>::CHUNKS];
    float sums[2][THREADS], scale[C], slope[C], offset[C];
    int last;
};

// Where a tile of so many rows lies in the map.
template <int C, int ROWS>
struct Place {
    int image, row, column, height, width;

    DEVICE Place(int tile, int height, int width) : height(height), width(width) {
        int across = width / Tile<C>::COLUMNS, tiles = across * (height / ROWS);
        image = tile / tiles;
        row = tile % tiles / across * ROWS;
        column = tile % across * Tile<C>::COLUMNS;
    }
    DEVICE int piece(int y, int x, int chunk) const {
        return ((image * height + row + y) * width + column + x) * Tile<C>::CHUNKS + chunk;
    }
    DEVICE bool has_row(int y) const {  // known for those of the tile itself
        return unsigned(y) < ROWS || unsigned(row + y) < unsigned(height);
    }
    DEVICE bool has(int y, int x) const {
        return has_row(y) && unsigned(column + x) < unsigned(width);
    }
};

// A tile that is read after the product comes nearer while that is computed: 128 lines of 128 bytes.
template <int C>
DEVICE void will_read(const Place<C, Tile<C>::ROWS> &place, const Piece *map) {
    static_assert(Tile<C>::COLUMNS * Tile<C>::CHUNKS == 16 * 8 && Tile<C>::ROWS * 16 == THREADS, "");
    will_read(map + place.piece(thread() / 16, 0, thread() % 16 * 8));
}

// The pixels left and right of a tile with its border: a thread's i-th.
template <int C>
struct Side {
    int row, column;  // of the copy
    bool there;       // whether the thread has it

    DEVICE Side(int i) {
        int pair = (thread() + i * THREADS) / Tile<C>::CHUNKS;
        there = pair < 2 * Tile<C>::TALL;
        row = pair % Tile<C>::TALL;
        column = pair < Tile<C>::TALL ? 0 : Tile<C>::WIDE - 1;
    }
};

// Without a choice: what follows from it then costs no registers of each thread.
DEVICE int tile_of(int upside_down) {
    return upside_down * (blocks() - 1) + (1 - 2 * upside_down) * block();
}

// The tiles of all blocks in groups of neighbours; only the last may have fewer.
struct Groups {
    int size = (blocks() + GROUPS - 1) / GROUPS, count = (blocks() + size - 1) / size;

    DEVICE int first(int group) const { return group * size; }
    DEVICE int tiles(int group) const { return min(size, blocks() - group * size); }
};

// Two numbers a thread, added up over the threads that have the same channel, `thread() % C`.
template <int C>
DEVICE void over_slices(Shared<C> &shared, float (&totals)[2]) {
    shared.sums[0][thread()] = totals[0];
    shared.sums[1][thread()] = totals[1];
    synchronize();
    for (int which = 0; which < 2; ++which) {
        totals[which] = 0;
        for (int slice = 0; slice < THREADS / C; ++slice)
            totals[which] += shared.sums[which][slice * C + thread() % C];
    }
}

// Two numbers for each channel of a thread's piece, added up over all threads: those of the channel
// `thread() % C`. The weights are lost.
template <int C>
DEVICE void over_threads(
    Shared<C> &shared, const float (&ones)[8], const float (&others)[8], float (&totals)[2]
) {
    constexpr int COLUMNS = Tile<C>::COLUMNS;
    float(*columns)[C] = reinterpret_cast<float(*)[C]>(shared.weights);
    static_assert(sizeof(shared.weights) >= sizeof(float) * 2 * COLUMNS * C, "");
    int column = thread() / Tile<C>::CHUNKS, chunk = thread() % Tile<C>::CHUNKS;
    for (int j = 0; j < 8; ++j) {
        columns[column][chunk * 8 + j] = ones[j];
        columns[COLUMNS + column][chunk * 8 + j] = others[j];
    }
    synchronize();
    totals[0] = totals[1] = 0;
    for (int i = thread() / C; i < COLUMNS; i += THREADS / C) {
        totals[0] += columns[i][thread() % C];
        totals[1] += columns[COLUMNS + i][thread() % C];
    }
    over_slices(shared, totals);
}

// Rows (sum, squares around the mean) become one, for the thread's channel. They are of `each`
// pixels, the last of `last`. Sums are taken around the first one's mean: squares must not cancel.
struct Moments {
    float sum, squares, pixels;
    DEVICE float mean() const { return sum / pixels; }
};
template <int C>
DEVICE Moments together(Shared<C> &shared, const float *rows, int count, float each, float last) {
    const float *own = rows + thread() % C;
    float around = fresh(own) / (count > 1 ? each : last), totals[2] = {0, 0};
    float share = 1 / each, share_of_last = 1 / last, pixels = (count - 1) * each + last;
    UNROLL_BY(8) for (int row = thread() / C; row < count; row += THREADS / C) {
        bool ends = row == count - 1;
        float away = fresh(own + row * 2 * C) * (ends ? share_of_last : share) - around;
        float part = (ends ? last : each) * away;
        totals[0] += part;
        totals[1] += fresh(own + (row * 2 + 1) * C) + part * away;
    }
    over_slices(shared, totals);
    float squares = totals[1] - totals[0] * totals[0] / pixels;
    return {pixels * around + totals[0], squares > 0 ? squares : 0, pixels};
}

// Whether the block is the last of so many to come here; it then sees what all of them have kept.
template <int C>
DEVICE bool last_of(Shared<C> &shared, int *arrived, int count) {
    synchronize();
    if (thread() == 0) {
        shared.last = add_atomically(arrived, 1) == count - 1;
        if (shared.last) *arrived = 0;  // for the next launch
    }
    synchronize();
    if (!shared.last) return false;
    fence();
    return true;
}

// Two numbers of the thread's channel, for the others to see.
template <int C>
DEVICE void keep(float *rows, int row, float one, float other) {
    if (thread() >= C) return;
    rows[row * 2 * C + thread()] = one;
    rows[(row * 2 + 1) * C + thread()] = other;
    fence();
}

template <int C>
DEVICE void fetch_weights(Shared<C> &shared, const Piece *weight, int tap) {
    using T = Tile<C>;
    int row = thread() / T::CHUNKS, chunk = thread() % T::CHUNKS;
    Spot to = spot(shared.weights + row * T::CHUNKS + (chunk ^ moved<T::CHUNKS>(row)));
    const Piece *from = weight + row * TAPS * T::CHUNKS + chunk;
    UNROLL for (int more = 0; more < C; more += T::COLUMNS)
        copy_piece(to + (tap % T::SLOTS * C + more) * T::CHUNKS * PIECE,
                   from + (more * TAPS + tap) * T::CHUNKS);
    commit_copies();
}

// The products of all taps, of the map's own tile in shared memory, which is lost after it.
// Back it is the one with the transposed weights and taps in the other order.
template <int C, bool BACK>
DEVICE void multiply(Shared<C> &shared, const Piece *weight) {
    using T = Tile<C>;
    int lane = thread() % 32, warp = thread() / 32, row = BACK ? lane % 16 : lane / 16 * 8 + lane % 8;
    float sums[T::M][T::N][4] = {};
    Spot from[3], factor = spot(shared.weights + row * T::CHUNKS +
                                ((BACK ? lane / 16 : lane / 8 % 2) ^ moved<T::CHUNKS>(row)));
    for (int x = 0; x < 3; ++x) from[x] = spot(shared.tile + T::at(warp * 2, lane % 16 + x, lane / 16));
    // One line of taps at a time: the addresses of all nine are more than a thread has registers for.
    ROLLED for (int line = 0; line < 3; ++line) {
        UNROLL for (int x = 0; x < 3; ++x) {
            int tap = line * 3 + x;
            if (T::SLOTS < TAPS || tap == 0) {
                await_copies();
                synchronize();
                if (T::SLOTS < TAPS && tap + 1 < TAPS) fetch_weights<C>(shared, weight, tap + 1);
            }
            int y = BACK ? 2 - line : line;
            UNROLL for (int k = 0; k < T::K; ++k) {
                unsigned a[T::M][4];
                UNROLL for (int m = 0; m < T::M; ++m)
                    load_matrices<false>(a[m][0], a[m][1], a[m][2], a[m][3],
                                         (from[BACK ? 2 - x : x] ^ k * 2 * PIECE) +
                                             ((y + m * 16 / T::COLUMNS) * T::WIDE + m * 16 % T::COLUMNS) *
                                                 T::CHUNKS * PIECE);
                UNROLL for (int n = 0; n < T::N; n += 2) {
                    unsigned b[2][2];
                    load_matrices<BACK>(b[0][0], b[0][1], b[1][0], b[1][1],
                                        (factor ^ (BACK ? n : k * 2) * PIECE) +
                                            (tap % T::SLOTS * C + (BACK ? k * 16 : n * 8)) * T::CHUNKS *
                                                PIECE);
                    UNROLL for (int m = 0; m < T::M; ++m) {
                        multiply_add(sums[m][n], a[m], b[0]);
                        multiply_add(sums[m][n + 1], a[m], b[1]);
                    }
                }
            }
        }
    }
    synchronize();
    int to = T::at(warp * 2, lane / 4, 0) * 4 + lane % 4;  // in pairs
    unsigned *pairs = reinterpret_cast<unsigned *>(shared.tile);
    UNROLL for (int m = 0; m < T::M; ++m)
        UNROLL for (int n = 0; n < T::N; ++n)
            UNROLL for (int half = 0; half < 2; ++half) {
                int pixel = m * 16 / T::COLUMNS * T::WIDE + m * 16 % T::COLUMNS + half * 8;
                pairs[(to ^ n * 4) + pixel * T::CHUNKS * 4] =
                    pack(sums[m][n][half * 2], sums[m][n][half * 2 + 1]);
            }
    synchronize();
}

// y = convolution(h) + skip with h = activation(BatchNorm(x)), or h = x without NORM; and the
// statistics of y. `statistics` are those of x from the convolution that wrote it.
template <int C, bool NORM, bool ADD>
KERNEL(THREADS, 5) forward(
    const Piece *x, const Piece *weight, const Piece *skip, Piece *h, Piece *y, float *tiles,
    int *arrived, float *totals, const float *statistics, const float *gamma, const float *beta,
    float *moments, float *running_mean, float *running_var, long long *batches,
    double momentum, double eps, int height, int width, int upside_down
) {
    using T = Tile<C>;
    SHARED Shared<C> shared;
    Place<C, T::ROWS> place(tile_of(upside_down), height, width);
    Groups groups;
    int chunk = thread() % T::CHUNKS, column = thread() / T::CHUNKS;
    Piece own[T::TALL], sides[T::SIDES];
    UNROLL for (int tap = 0; tap < (T::SLOTS < TAPS ? 1 : TAPS); ++tap)
        fetch_weights<C>(shared, weight, tap);
    await_previous();
    UNROLL for (int row = 0; row < T::TALL; ++row)
        own[row] = place.has_row(row - 1) ? x[place.piece(row - 1, column, chunk)] : NOTHING;
    if (ADD) will_read<C>(place, skip);
    UNROLL for (int i = 0; i < T::SIDES; ++i) {
        Side<C> side(i);
        bool there = side.there && place.has(side.row - 1, side.column - 1);
        sides[i] = there ? x[place.piece(side.row - 1, side.column - 1, chunk)] : NOTHING;
    }
    if (NORM) {
        Moments all = together<C>(shared, statistics, groups.count, float(groups.size * T::POSITIONS),
                                  float(groups.tiles(groups.count - 1) * T::POSITIONS));
        int channel = thread() % C;
        float variance = all.squares / all.pixels, rstd = 1 / sqrtf(variance + float(eps));
        float times = rstd * gamma[channel];
        if (thread() < C) {
            shared.scale[channel] = times;
            shared.offset[channel] = beta[channel] - all.mean() * times;
            if (block() == 0) {
                float rate = float(momentum), unbiased = all.squares / (all.pixels - 1);
                moments[channel] = all.mean();
                moments[C + channel] = rstd;
                if (batches) {
                    running_mean[channel] += rate * (all.mean() - running_mean[channel]);
                    running_var[channel] += rate * (unbiased - running_var[channel]);
                    if (channel == 0) *batches += 1;
                }
            }
        }
        synchronize();
        float scale[8], offset[8];
        for (int j = 0; j < 8; ++j) {
            scale[j] = shared.scale[chunk * 8 + j];
            offset[j] = shared.offset[chunk * 8 + j];
        }
        auto activate = [&](Piece &piece) {
            float values[8];
            unpack(piece, values);
            UNROLL for (int j = 0; j < 8; ++j) {
                float z = fmaf(values[j], scale[j], offset[j]);
                values[j] = fmaxf(z, SLOPE * z);
            }
            piece = pack(values);
        };
        UNROLL for (int row = 0; row < T::TALL; ++row) {
            if (place.has_row(row - 1)) activate(own[row]);
            if (row > 0 && row <= T::ROWS) h[place.piece(row - 1, column, chunk)] = own[row];
        }
        UNROLL for (int i = 0; i < T::SIDES; ++i) {
            Side<C> side(i);
            if (side.there && place.has(side.row - 1, side.column - 1)) activate(sides[i]);
        }
    }
    UNROLL for (int row = 0; row < T::TALL; ++row) shared.tile[T::at(row, column + 1, chunk)] = own[row];
    UNROLL for (int i = 0; i < T::SIDES; ++i) {
        Side<C> side(i);
        if (side.there) shared.tile[T::at(side.row, side.column, chunk)] = sides[i];
    }
    multiply<C, false>(shared, weight);

    float first[8], sums[8] = {}, squares[8] = {};  // around the first pixel
    unpack(shared.tile[T::at(0, 0, chunk)], first);
    if (ADD) {
        float other[8];
        unpack(skip[place.piece(0, 0, chunk)], other);
        for (int j = 0; j < 8; ++j) first[j] += other[j];
    }
    UNROLL for (int row = 0; row < T::ROWS; ++row) {
        int at = place.piece(row, column, chunk);
        Piece result = shared.tile[T::at(row, column, chunk)];
        float values[8];
        unpack(result, values);
        if (ADD) {
            float other[8];
            unpack(skip[at], other);
            for (int j = 0; j < 8; ++j) values[j] += other[j];
            result = pack(values);
            unpack(result, values);
        }
        y[at] = result;
        for (int j = 0; j < 8; ++j) {
            float away = values[j] - first[j];
            sums[j] += away;
            squares[j] = fmaf(away, away, squares[j]);
        }
    }
    float kept[2];
    if (thread() < T::CHUNKS)  // of the threads for the first pixel
        for (int j = 0; j < 8; ++j) shared.offset[chunk * 8 + j] = first[j];
    over_threads(shared, sums, squares, kept);
    float spread = kept[1] - kept[0] * kept[0] / T::POSITIONS;
    kept[0] += T::POSITIONS * shared.offset[thread() % C];
    kept[1] = spread > 0 ? spread : 0;
    int tile = tile_of(upside_down), group = tile / groups.size, count = groups.tiles(group);
    keep<C>(tiles, tile, kept[0], kept[1]);
    if (!last_of(shared, arrived + group, count)) return;
    Moments all = together<C>(shared, tiles + groups.first(group) * 2 * C, count,
                              float(T::POSITIONS), float(T::POSITIONS));
    keep<C>(totals, group, all.sum, all.squares);
}

// Sums of rows (one, other), for the thread's channel.
template <int C>
DEVICE void add_rows(Shared<C> &shared, const float *rows, int count, float (&totals)[2]) {
    const float *own = rows + thread() % C;
    totals[0] = totals[1] = 0;
    UNROLL_BY(8) for (int row = thread() / C; row < count; row += THREADS / C) {
        totals[0] += fresh(own + row * 2 * C);
        totals[1] += fresh(own + (row * 2 + 1) * C);
    }
    over_slices(shared, totals);
}

// The gradient of the map that was convolved, behind the activation where there was one (NORM),
// then with its sums over each channel, and those of its products with x as BatchNorm leaves it.
// `grad` is that of the result; or, if a BatchNorm came next (NEXT), what is behind that and its
// activation, so that `whole` becomes the gradient of the result:
//   gamma * rstd * (grad - mean of grad - normed * mean of (grad * normed)) + extra
template <int C, bool NORM, bool NEXT>
KERNEL(THREADS, 5) backward(
    const Piece *grad, const Piece *weight, Piece *out, const Piece *x, const float *moments,
    const float *gamma, const float *beta, float *tiles, int *arrived, float *totals, float *sums,
    float *grad_gamma, float *grad_beta, const Piece *next_x, const Piece *extra,
    const float *next_moments, const float *next_gamma, const float *next_sums, Piece *whole,
    int height, int width, int upside_down
) {
    using T = Tile<C>;
    SHARED Shared<C> shared;
    Place<C, T::ROWS> place(tile_of(upside_down), height, width);
    int chunk = thread() % T::CHUNKS, column = thread() / T::CHUNKS;
    UNROLL for (int tap = 0; tap < (T::SLOTS < TAPS ? 1 : TAPS); ++tap)
        fetch_weights<C>(shared, weight, tap);
    await_previous();
    if (NORM) will_read<C>(place, x);
    if (NEXT) {
        if (thread() < C) {
            int channel = thread();
            float pixels = float(blocks() * T::POSITIONS), mean = next_moments[channel];
            float rstd = next_moments[C + channel], scale = rstd * next_gamma[channel];
            float slope = rstd * (next_sums[C + channel] / pixels);
            shared.scale[channel] = scale;
            shared.slope[channel] = -scale * slope;
            shared.offset[channel] = scale * (mean * slope - next_sums[channel] / pixels);
        }
        synchronize();
        float scale[8], slope[8], offset[8];
        for (int j = 0; j < 8; ++j) {
            scale[j] = shared.scale[chunk * 8 + j];
            slope[j] = shared.slope[chunk * 8 + j];
            offset[j] = shared.offset[chunk * 8 + j];
        }
        auto spread = [&](const Piece &behind, const Piece &input, const Piece &more) {
            float g[8], values[8], others[8];
            unpack(behind, g);
            unpack(input, values);
            unpack(more, others);
            UNROLL for (int j = 0; j < 8; ++j)
                g[j] = fmaf(scale[j], g[j], fmaf(slope[j], values[j], offset[j])) + others[j];
            return pack(g);
        };
        constexpr int BATCH = 5;  // rows whose loads are on their way at a time
        UNROLL for (int first = 0; first < T::TALL; first += BATCH) {
            Piece behind[BATCH], input[BATCH], more[BATCH];
            UNROLL for (int i = 0; i < BATCH; ++i) {
                int row = first + i, at = place.piece(row - 1, column, chunk);
                bool there = place.has_row(row - 1);
                behind[i] = there ? grad[at] : NOTHING;
                input[i] = there ? next_x[at] : NOTHING;
                more[i] = there && extra ? extra[at] : NOTHING;
            }
            UNROLL for (int i = 0; i < BATCH; ++i) {
                int row = first + i;
                Piece result = NOTHING;
                if (place.has_row(row - 1)) result = spread(behind[i], input[i], more[i]);
                if (row > 0 && row <= T::ROWS) whole[place.piece(row - 1, column, chunk)] = result;
                shared.tile[T::at(row, column + 1, chunk)] = result;
            }
        }
        UNROLL for (int i = 0; i < T::SIDES; ++i) {
            Side<C> side(i);
            if (!side.there) continue;
            Piece result = NOTHING;
            if (place.has(side.row - 1, side.column - 1)) {
                int at = place.piece(side.row - 1, side.column - 1, chunk);
                result = spread(grad[at], next_x[at], extra ? extra[at] : NOTHING);
            }
            shared.tile[T::at(side.row, side.column, chunk)] = result;
        }
    } else {
        UNROLL for (int row = 0; row < T::TALL; ++row)
            copy_or_clear(place.has_row(row - 1), shared.tile + T::at(row, column + 1, chunk),
                          grad + place.piece(row - 1, column, chunk));
        UNROLL for (int i = 0; i < T::SIDES; ++i) {
            Side<C> side(i);
            if (side.there)
                copy_or_clear(place.has(side.row - 1, side.column - 1),
                              shared.tile + T::at(side.row, side.column, chunk),
                              grad + place.piece(side.row - 1, side.column - 1, chunk));
        }
        commit_copies();
    }
    multiply<C, true>(shared, weight);

    float mean[8], scale[8], offset[8], added[8] = {}, products[8] = {};
    if (NORM)
        for (int j = 0; j < 8; ++j) {
            int channel = chunk * 8 + j;
            mean[j] = moments[channel];
            scale[j] = moments[C + channel] * gamma[channel];
            offset[j] = beta[channel] - mean[j] * scale[j];
        }
    UNROLL for (int row = 0; row < T::ROWS; ++row) {
        int at = place.piece(row, column, chunk);
        Piece result = shared.tile[T::at(row, column, chunk)];
        if (NORM) {
            float g[8], input[8];
            unpack(result, g);
            unpack(x[at], input);
            for (int j = 0; j < 8; ++j)
                if (!(fmaf(input[j], scale[j], offset[j]) > 0)) g[j] *= SLOPE;
            result = pack(g);
            unpack(result, g);
            for (int j = 0; j < 8; ++j) {
                added[j] += g[j];
                products[j] = fmaf(g[j], input[j] - mean[j], products[j]);
            }
        }
        out[at] = result;
    }
    if (!NORM) return;
    float kept[2];
    over_threads(shared, added, products, kept);
    Groups groups;
    int tile = tile_of(upside_down), group = tile / groups.size, count = groups.tiles(group);
    keep<C>(tiles, tile, kept[0], kept[1] * moments[C + thread() % C]);
    if (!last_of(shared, arrived + group, count)) return;
    add_rows(shared, tiles + groups.first(group) * 2 * C, count, kept);
    keep<C>(totals, group, kept[0], kept[1]);
    if (!last_of(shared, arrived + GROUPS, groups.count)) return;
    add_rows(shared, totals, groups.count, kept);
    keep<C>(sums, 0, kept[0], kept[1]);
    if (thread() < C) {
        grad_beta[thread()] = kept[0];
        grad_gamma[thread()] = kept[1];
    }
}

// The gradient of a weight of 32 channels in and out, in tiles of four rows. A warp has the three taps
// of one line and half the rows of each tile. Two tiles are in shared memory: one is computed while
// the other one comes.
struct alignas(128) Pair {
    static constexpr int C = 32, ROWS = 4, COLUMNS = Tile<C>::COLUMNS, CHUNKS = Tile<C>::CHUNKS;
    static constexpr int TALL = ROWS + 2, WIDE = COLUMNS + 2, LINES = 3, THREADS = 2 * LINES * 32;
    static constexpr int STEPS = ROWS / 2 * COLUMNS / 16;  // of 16 pixels
    Piece around[TALL * WIDE * CHUNKS], own[ROWS * COLUMNS * CHUNKS];

    static DEVICE int own_at(int row, int column, int chunk) {
        return (row * COLUMNS + column) * CHUNKS + (chunk ^ moved<CHUNKS>(column));
    }
    DEVICE void fetch(const Piece *h, const Piece *grad, int tile, int height, int width) {
        using T = Tile<C>;
        Place<C, ROWS> place(tile, height, width);
        int lane = thread() % 32, column = lane / CHUNKS, chunk = lane % CHUNKS;
        ROLLED for (int task = thread() / 32; task < TALL + ROWS + 2; task += THREADS / 32) {
            if (task < TALL) {  // a row
                bool there = place.has_row(task - 1);
                UNROLL for (int x = column; x < COLUMNS; x += 32 / CHUNKS)
                    copy_or_clear(there, around + T::at(task, x + 1, chunk),
                                  h + place.piece(task - 1, x, chunk));
            } else if (task < TALL + ROWS) {
                UNROLL for (int x = column; x < COLUMNS; x += 32 / CHUNKS)
                    copy_piece(spot(own + own_at(task - TALL, x, chunk)),
                               grad + place.piece(task - TALL, x, chunk));
            } else {  // the border on one side
                int x = task == TALL + ROWS ? 0 : WIDE - 1;
                if (column < TALL)
                    copy_or_clear(place.has(column - 1, x - 1), around + T::at(column, x, chunk),
                                  h + place.piece(column - 1, x - 1, chunk));
            }
        }
        commit_copies();
    }
};

// Over the tiles share, share + shares, …: (shares, C, 3, 3, C) in all. There are no more shares than tiles.
KERNEL(Pair::THREADS, 2) weight_gradient(
    const Piece *h, const Piece *grad, float *sums, int tiles, int height, int width
) {
    using P = Pair;
    constexpr int C = P::C, CHUNKS = P::CHUNKS, EACH = 3 * 2 * 4 * 4, HALF = P::THREADS / 2;
    SHARED Pair pairs[2];
    int lane = thread() % 32, line = thread() / 32 % P::LINES, lower = thread() / HALF;
    int row = lower * P::ROWS / 2;
    Spot from[3], own = spot(pairs[0].own + P::own_at(row, lane % 8 + lane / 16 * 8, lane / 8 % 2));
    for (int x = 0; x < 3; ++x)
        from[x] = spot(pairs[0].around + Tile<C>::at(row + line, lane % 16 + x, lane / 16));
    float products[3][2][4][4] = {};
    pairs[0].fetch(h, grad, block(), height, width);
    ROLLED for (int tile = block(), which = 0; tile < tiles; tile += blocks(), which ^= 1) {
        await_copies();
        synchronize();
        if (tile + blocks() < tiles) pairs[which ^ 1].fetch(h, grad, tile + blocks(), height, width);
        int here = which * int(sizeof(P));
        UNROLL for (int k = 0; k < P::STEPS; ++k) {
            unsigned a[2][4];
            UNROLL for (int m = 0; m < 2; ++m)
                load_matrices<true>(a[m][0], a[m][1], a[m][2], a[m][3],
                                    (own ^ m * 2 * PIECE) + here + k * 16 * CHUNKS * PIECE);
            int pixel = k * 16 / P::COLUMNS * P::WIDE + k * 16 % P::COLUMNS;
            UNROLL for (int tap = 0; tap < 3; ++tap)
                UNROLL for (int n = 0; n < 4; n += 2) {
                    unsigned b[2][2];
                    load_matrices<true>(b[0][0], b[0][1], b[1][0], b[1][1],
                                        (from[tap] ^ n * PIECE) + here + pixel * CHUNKS * PIECE);
                    UNROLL for (int m = 0; m < 2; ++m) {
                        multiply_add(products[tap][m][n], a[m], b[0]);
                        multiply_add(products[tap][m][n + 1], a[m], b[1]);
                    }
                }
        }
    }
    float *others = reinterpret_cast<float *>(pairs) + thread() % HALF, *all = &products[0][0][0][0];
    static_assert(sizeof(pairs) >= sizeof(float) * EACH * HALF, "");
    synchronize();
    if (lower)
        UNROLL for (int i = 0; i < EACH; ++i) others[i * HALF] = all[i];
    synchronize();
    if (lower) return;
    UNROLL for (int i = 0; i < EACH; ++i) all[i] += others[i * HALF];
    float *to = sums + (block() * C + lane / 4) * TAPS * C + line * 3 * C + lane % 4 * 2;
    UNROLL for (int tap = 0; tap < 3; ++tap)
        UNROLL for (int m = 0; m < 2; ++m)
            UNROLL for (int n = 0; n < 4; ++n)
                UNROLL for (int i = 0; i < 4; ++i)
                    to[(m * 16 + i / 2 * 8) * TAPS * C + tap * C + n * 8 + i % 2] = products[tap][m][n][i];
}

// The sums of all columns of a matrix, in bfloat16; a block has 32 of them, which divides their number.
KERNEL(256, 8) add_up(const float *matrix, unsigned *out, int rows, int columns) {
    constexpr int WIDTH = 32, SLICES = 256 / (WIDTH / 2);
    SHARED float parts[SLICES][WIDTH];
    int pair = thread() % (WIDTH / 2), slice = thread() / (WIDTH / 2);
    const float *from = matrix + block() * WIDTH + pair * 2;
    float low = 0, high = 0;
    UNROLL_BY(8) for (int row = slice; row < rows; row += SLICES) {
        low += from[row * columns];
        high += from[row * columns + 1];
    }
    parts[slice][pair * 2] = low;
    parts[slice][pair * 2 + 1] = high;
    synchronize();
    if (slice > 0) return;
    for (int other = 1; other < SLICES; ++other) {
        low += parts[other][pair * 2];
        high += parts[other][pair * 2 + 1];
    }
    out[block() * WIDTH / 2 + pair] = pack(low, high);
}
