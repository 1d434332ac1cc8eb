// A 3 x 3 convolution of C to C channels together with its neighbours in a residual net:
// forward BatchNorm and activation in front of it, the sum and the next BatchNorm's statistics
// behind it; backward the activation's gradient and the BatchNorm's sums behind the one of the maps.
//
// A block computes a tile of an image from a copy in shared memory that has a border of one pixel.
// A tap of the convolution is a matrix product whose rows are the copy's pixels moved by the tap.
// Maps are channels-last in bfloat16, weights (C, 3, 3, C); `primitives.cuh` stands before this text.

constexpr int THREADS = 128, WARPS = THREADS / 32, TAPS = 9;
// The sums of neighbouring tiles are put together by the last of them to end, in at most so many rows.
// GROUPS and SLOPE, the activation's below zero, are given when this is compiled.

DEVICE void unpack(const Piece &piece, float (&values)[8]) {
    for (int i = 0; i < 4; ++i) {
        values[2 * i] = as_float(piece.pairs[i] << 16);
        values[2 * i + 1] = as_float(piece.pairs[i] & 0xffff0000u);
    }
}
DEVICE Piece pack(const float (&values)[8]) {
    Piece piece;
    for (int i = 0; i < 4; ++i) piece.pairs[i] = pack(values[2 * i], values[2 * i + 1]);
    return piece;
}

// Where a piece lies: moved within its pixel so that eight neighbours use all memory banks.
template <int CHUNKS>
DEVICE unsigned placed(int pixel, int chunk) {
    return pixel * CHUNKS + (chunk ^ (CHUNKS == 4 ? pixel >> 1 & 3 : pixel & 7));
}

template <int C>
struct Tile {
    static constexpr int ROWS = 8, COLUMNS = 1024 / C, POSITIONS = ROWS * COLUMNS;
    static constexpr int WIDE = COLUMNS + 2, BORDERED = (ROWS + 2) * WIDE;  // pixels of the copy
    static constexpr int CHUNKS = C / 8;  // a pixel's channels in pieces of 16 bytes
    static constexpr int SLOTS = C == 32 ? TAPS : 2;  // taps whose weights are there at a time
    static constexpr int M = POSITIONS / WARPS / 16, N = C / 8, K = C / 16;  // of a warp's product
    static constexpr int OWN = POSITIONS * CHUNKS / THREADS;  // pieces of a thread in the tile

    static DEVICE unsigned at(int pixel, int chunk) { return placed<CHUNKS>(pixel, chunk); }
};

DEVICE void copy_or_clear(bool there, Piece *to, const Piece *from) {
    if (there)
        copy_piece(to, from);
    else
        *to = NOTHING;
}

template <int C>
struct Shared {
    Piece tile[Tile<C>::BORDERED * Tile<C>::CHUNKS];
    Piece weights[Tile<C>::SLOTS * C * Tile<C>::CHUNKS];
    float sums[2][WARPS][C], scale[C], offset[C];
    int last;
};

// Where a tile lies in the map.
template <int C>
struct Place {
    int image, row, column, height, width;

    DEVICE Place(int tile, int height, int width) : height(height), width(width) {
        int across = width / Tile<C>::COLUMNS, tiles = across * (height / Tile<C>::ROWS);
        image = tile / tiles;
        row = tile % tiles / across * Tile<C>::ROWS;
        column = tile % across * Tile<C>::COLUMNS;
    }
    DEVICE int piece(int y, int x, int chunk) const {
        return ((image * height + row + y) * width + column + x) * Tile<C>::CHUNKS + chunk;
    }
    DEVICE bool inside(int y, int x) const {
        return unsigned(row + y) < unsigned(height) && unsigned(column + x) < unsigned(width);
    }
};

// The tiles of all blocks in groups of neighbours; only the last may have fewer.
struct Groups {
    int size = (blocks() + GROUPS - 1) / GROUPS, count = (blocks() + size - 1) / size;

    DEVICE int first(int group) const { return group * size; }
    DEVICE int tiles(int group) const { return min(size, blocks() - group * size); }
};

// One number a thread, C of them in a row, added up over the threads that have the same channel.
template <int C>
DEVICE float over_slices(float (&memory)[WARPS][C], float value) {
    float *flat = &memory[0][0], total = 0;
    flat[thread()] = value;
    synchronize();
    for (int slice = 0; slice < THREADS / C; ++slice) total += flat[slice * C + thread() % C];
    return total;
}

// Eight numbers a thread, one a channel of its piece, added up over all threads.
template <int C>
DEVICE void over_threads(float (&memory)[WARPS][C], float (&values)[8]) {
    int chunk = thread() % Tile<C>::CHUNKS;
    for (int j = 0; j < 8; ++j)
        for (int step = Tile<C>::CHUNKS; step < 32; step *= 2)
            values[j] += shuffle_xor(values[j], step);
    if (thread() % 32 < Tile<C>::CHUNKS)
        for (int j = 0; j < 8; ++j) memory[thread() / 32][chunk * 8 + j] = values[j];
    synchronize();
    for (int j = 0; j < 8; ++j) {
        values[j] = 0;
        for (int warp = 0; warp < WARPS; ++warp) values[j] += memory[warp][chunk * 8 + j];
    }
}

// Rows (sum, sum of squares around the mean) of groups or tiles become one, for a thread's channel.
struct Moments {
    float sum, squares, pixels;
    DEVICE float mean() const { return sum / pixels; }
};
template <int C, class Pixels>
DEVICE Moments together(Shared<C> &shared, const float *rows, int count, Pixels pixels) {
    int channel = thread() % C, slice = thread() / C;
    Moments all = {0, 0, 0};
    float sum = 0, squares = 0;
    ROLLED for (int row = 0; row < count; ++row) all.pixels += pixels(row);
    UNROLL for (int row = slice; row < count; row += THREADS / C)
        sum += fresh(rows + row * 2 * C + channel);
    all.sum = over_slices(shared.sums[0], sum);
    ROLLED for (int row = slice; row < count; row += THREADS / C) {
        float own = pixels(row), away = fresh(rows + row * 2 * C + channel) / own - all.mean();
        squares += fresh(rows + (row * 2 + 1) * C + channel) + own * away * away;
    }
    all.squares = over_slices(shared.sums[1], squares);
    return all;
}

// The last block of a group to come here sees what all of them have written.
template <int C>
DEVICE bool last_of(Shared<C> &shared, int *arrived, int group, int count) {
    fence();
    synchronize();
    if (thread() == 0) {
        shared.last = add_atomically(arrived + group, 1) == count - 1;
        if (shared.last) arrived[group] = 0;  // for the next launch
    }
    synchronize();
    fence();
    return shared.last;
}

template <int C>
DEVICE void fetch_weights(Shared<C> &shared, const Piece *weight, int tap) {
    using T = Tile<C>;
    Piece *slot = shared.weights + tap % T::SLOTS * C * T::CHUNKS;
    for (int i = thread(); i < C * T::CHUNKS; i += THREADS) {
        int row = i / T::CHUNKS, chunk = i % T::CHUNKS;
        copy_piece(slot + T::at(row, chunk), weight + (row * TAPS + tap) * T::CHUNKS + chunk);
    }
    commit_copies();
}

// The products of all taps, of the map's own tile in shared memory, which is lost after it.
// Back it is the one with the transposed weights and taps in the other order.
template <int C, bool BACK>
DEVICE void multiply(Shared<C> &shared, const Piece *weight) {
    using T = Tile<C>;
    int lane = thread() % 32, warp = thread() / 32;
    float sums[T::M][T::N][4] = {};
    int pixel[T::M];
    for (int m = 0; m < T::M; ++m) {
        int position = warp * T::M * 16 + m * 16 + lane % 16;
        pixel[m] = (position / T::COLUMNS + 1) * T::WIDE + position % T::COLUMNS + 1;
    }
    ROLLED for (int tap = 0; tap < TAPS; ++tap) {
        if (T::SLOTS < TAPS || tap == 0) {
            await_copies();
            synchronize();
            if (T::SLOTS < TAPS && tap + 1 < TAPS) fetch_weights<C>(shared, weight, tap + 1);
        }
        const Piece *slot = shared.weights + tap % T::SLOTS * C * T::CHUNKS;
        int move = (tap / 3 - 1) * T::WIDE + tap % 3 - 1;
        UNROLL for (int k = 0; k < T::K; ++k) {
            unsigned a[T::M][4];
            UNROLL for (int m = 0; m < T::M; ++m) {
                int from = BACK ? pixel[m] - move : pixel[m] + move;
                load_matrices<false>(a[m][0], a[m][1], a[m][2], a[m][3],
                                     shared.tile + T::at(from, k * 2 + lane / 16));
            }
            UNROLL for (int n = 0; n < T::N; n += 2) {
                unsigned b[2][2];
                int row = BACK ? k * 16 + lane % 16 : n * 8 + lane / 16 * 8 + lane % 8;
                int chunk = BACK ? n + lane / 16 : k * 2 + lane / 8 % 2;
                load_matrices<BACK>(b[0][0], b[0][1], b[1][0], b[1][1], slot + T::at(row, chunk));
                UNROLL for (int m = 0; m < T::M; ++m) {
                    multiply_add(sums[m][n], a[m], b[0]);
                    multiply_add(sums[m][n + 1], a[m], b[1]);
                }
            }
        }
    }
    synchronize();
    for (int m = 0; m < T::M; ++m)
        for (int n = 0; n < T::N; ++n)
            for (int half = 0; half < 2; ++half) {
                int position = warp * T::M * 16 + m * 16 + half * 8 + lane / 4;
                unsigned *to = reinterpret_cast<unsigned *>(shared.tile + T::at(position, n));
                to[lane % 4] = pack(sums[m][n][half * 2], sums[m][n][half * 2 + 1]);
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
    double momentum, double eps, int height, int width
) {
    using T = Tile<C>;
    SHARED Shared<C> shared;
    Place<C> place(block(), height, width);
    Groups groups;
    int chunk = thread() % T::CHUNKS;
    constexpr int LOADS = (T::BORDERED * T::CHUNKS + THREADS - 1) / THREADS;
    Piece loaded[LOADS];
    for (int tap = 0; tap < (T::SLOTS < TAPS ? 1 : TAPS); ++tap) fetch_weights<C>(shared, weight, tap);
    UNROLL for (int i = 0; i < LOADS; ++i) {
        int pixel = (thread() + i * THREADS) / T::CHUNKS;
        int py = pixel / T::WIDE - 1, px = pixel % T::WIDE - 1;
        loaded[i] = NOTHING;
        if (pixel < T::BORDERED && place.inside(py, px)) loaded[i] = x[place.piece(py, px, chunk)];
    }
    float scale[8], offset[8];
    if (NORM) {
        Moments all = together<C>(shared, statistics, groups.count, [=](int group) {
            return float(groups.tiles(group) * Tile<C>::POSITIONS);
        });
        int channel = thread() % C;
        float variance = all.squares / all.pixels, rstd = 1 / sqrtf(variance + float(eps));
        float times = rstd * gamma[channel], plus = beta[channel] - all.mean() * times;
        if (thread() < C) {
            shared.scale[channel] = times;
            shared.offset[channel] = plus;
            if (block() == 0) {
                float rate = float(momentum), unbiased = all.squares / (all.pixels - 1);
                moments[channel] = all.mean();
                moments[C + channel] = rstd;
                running_mean[channel] += rate * (all.mean() - running_mean[channel]);
                running_var[channel] += rate * (unbiased - running_var[channel]);
                if (channel == 0) *batches += 1;
            }
        }
        synchronize();
        for (int j = 0; j < 8; ++j) {
            scale[j] = shared.scale[chunk * 8 + j];
            offset[j] = shared.offset[chunk * 8 + j];
        }
    }
    UNROLL for (int i = 0; i < LOADS; ++i) {
        int pixel = (thread() + i * THREADS) / T::CHUNKS;
        int py = pixel / T::WIDE - 1, px = pixel % T::WIDE - 1;
        if (pixel >= T::BORDERED) continue;
        if (NORM && place.inside(py, px)) {
            float values[8];
            unpack(loaded[i], values);
            for (int j = 0; j < 8; ++j) {
                float z = fmaf(values[j], scale[j], offset[j]);
                values[j] = z > 0 ? z : SLOPE * z;
            }
            loaded[i] = pack(values);
            if (unsigned(py) < T::ROWS && unsigned(px) < T::COLUMNS)
                h[place.piece(py, px, chunk)] = loaded[i];
        }
        shared.tile[T::at(pixel, chunk)] = loaded[i];
    }
    multiply<C, false>(shared, weight);

    float values[T::OWN][8], sums[8] = {}, squares[8] = {};
    UNROLL for (int i = 0; i < T::OWN; ++i) {
        int position = (thread() + i * THREADS) / T::CHUNKS;
        int at = place.piece(position / T::COLUMNS, position % T::COLUMNS, chunk);
        Piece result = shared.tile[T::at(position, chunk)];
        unpack(result, values[i]);
        if (ADD) {
            float other[8];
            unpack(skip[at], other);
            for (int j = 0; j < 8; ++j) values[i][j] += other[j];
            result = pack(values[i]);
            unpack(result, values[i]);
        }
        y[at] = result;
        for (int j = 0; j < 8; ++j) sums[j] += values[i][j];
    }
    over_threads<C>(shared.sums[0], sums);
    for (int i = 0; i < T::OWN; ++i)
        for (int j = 0; j < 8; ++j) {
            float away = values[i][j] - sums[j] / T::POSITIONS;
            squares[j] += away * away;
        }
    over_threads<C>(shared.sums[1], squares);
    if (thread() < T::CHUNKS)
        for (int j = 0; j < 8; ++j) {
            tiles[block() * 2 * C + chunk * 8 + j] = sums[j];
            tiles[(block() * 2 + 1) * C + chunk * 8 + j] = squares[j];
        }
    int group = block() / groups.size;
    if (!last_of<C>(shared, arrived, group, groups.tiles(group))) return;
    Moments all = together<C>(
        shared, tiles + groups.first(group) * 2 * C, groups.tiles(group), [](int) {
            return float(Tile<C>::POSITIONS);
        });
    if (thread() < C) {
        totals[group * 2 * C + thread()] = all.sum;
        totals[(group * 2 + 1) * C + thread()] = all.squares;
    }
}

// The gradient of the map that was convolved, behind the activation where there was one (NORM),
// then with its sums over each channel, and those of its products with x as BatchNorm leaves it.
template <int C, bool NORM>
KERNEL(THREADS, 5) backward(
    const Piece *grad, const Piece *weight, Piece *out, const Piece *x, const float *moments,
    const float *gamma, const float *beta, float *tiles, int *arrived, float *totals,
    int height, int width
) {
    using T = Tile<C>;
    SHARED Shared<C> shared;
    Place<C> place(block(), height, width);
    int chunk = thread() % T::CHUNKS;
    for (int tap = 0; tap < (T::SLOTS < TAPS ? 1 : TAPS); ++tap) fetch_weights<C>(shared, weight, tap);
    for (int i = thread(); i < T::BORDERED * T::CHUNKS; i += THREADS) {
        int pixel = i / T::CHUNKS, py = pixel / T::WIDE - 1, px = pixel % T::WIDE - 1;
        copy_or_clear(place.inside(py, px), shared.tile + T::at(pixel, chunk),
                      grad + place.piece(py, px, chunk));
    }
    commit_copies();
    multiply<C, true>(shared, weight);

    float mean[8], rstd[8], scale[8], offset[8], sums[8] = {}, products[8] = {};
    if (NORM)
        for (int j = 0; j < 8; ++j) {
            int channel = chunk * 8 + j;
            mean[j] = moments[channel];
            rstd[j] = moments[C + channel];
            scale[j] = rstd[j] * gamma[channel];
            offset[j] = beta[channel] - mean[j] * scale[j];
        }
    UNROLL for (int i = 0; i < T::OWN; ++i) {
        int position = (thread() + i * THREADS) / T::CHUNKS;
        int at = place.piece(position / T::COLUMNS, position % T::COLUMNS, chunk);
        Piece result = shared.tile[T::at(position, chunk)];
        if (NORM) {
            float g[8], input[8];
            unpack(result, g);
            unpack(x[at], input);
            for (int j = 0; j < 8; ++j)
                if (!(fmaf(input[j], scale[j], offset[j]) > 0)) g[j] *= SLOPE;
            result = pack(g);
            unpack(result, g);
            for (int j = 0; j < 8; ++j) {
                sums[j] += g[j];
                products[j] += g[j] * ((input[j] - mean[j]) * rstd[j]);
            }
        }
        out[at] = result;
    }
    if (!NORM) return;
    over_threads<C>(shared.sums[0], sums);
    over_threads<C>(shared.sums[1], products);
    if (thread() < T::CHUNKS)
        for (int j = 0; j < 8; ++j) {
            tiles[block() * 2 * C + chunk * 8 + j] = sums[j];
            tiles[(block() * 2 + 1) * C + chunk * 8 + j] = products[j];
        }
    Groups groups;
    int group = block() / groups.size;
    if (!last_of<C>(shared, arrived, group, groups.tiles(group))) return;
    for (int which = 0; which < 2; ++which) {
        const float *first = tiles + (groups.first(group) * 2 + which) * C + thread() % C;
        float total = 0;
        for (int tile = thread() / C; tile < groups.tiles(group); tile += THREADS / C)
            total += fresh(first + tile * 2 * C);
        total = over_slices(shared.sums[which], total);
        if (thread() < C) totals[(group * 2 + which) * C + thread()] = total;
    }
}

// A part of a weight's gradient. A warp has 32 channels out, 32 in and the three taps of one line.
template <int C>
struct Part {
    static constexpr int OUT = C / 32, IN = C == 64 ? 2 : 1, LINES = C == 32 ? 3 : 1;  // of a block
    static constexpr int THREADS = 32 * OUT * IN * LINES, PER_MAP = 3 / LINES * (C / 32 / IN);
    static constexpr int CHUNKS = 4 * IN, ROWS = Tile<C>::ROWS + LINES - 1;  // of h
};

// The gradient of the weight over the tiles share, share + shares, …; (shares, C, 3, 3, C) in all.
template <int C>
KERNEL(Part<C>::THREADS, 3) weight_gradient(
    const Piece *h, const Piece *grad, float *sums, int tiles, int height, int width
) {
    using T = Tile<C>;
    using P = Part<C>;
    SHARED Piece around[P::ROWS * T::WIDE * P::CHUNKS], own[T::POSITIONS * T::CHUNKS];
    int share = block() / P::PER_MAP, shares = blocks() / P::PER_MAP, part = block() % P::PER_MAP;
    int top = part % (3 / P::LINES), inner = part / (3 / P::LINES) * P::CHUNKS;
    int lane = thread() % 32, warp = thread() / 32;
    int line = warp / (P::OUT * P::IN), out = warp % P::OUT, in = warp / P::OUT % P::IN;
    float products[3][2][4][4] = {};
    for (int tile = share; tile < tiles; tile += shares) {
        Place<C> place(tile, height, width);
        synchronize();
        for (int i = thread(); i < P::ROWS * T::WIDE * P::CHUNKS; i += P::THREADS) {
            int pixel = i / P::CHUNKS, chunk = i % P::CHUNKS;
            int y = pixel / T::WIDE + top - 1, x = pixel % T::WIDE - 1;
            copy_or_clear(place.inside(y, x), around + placed<P::CHUNKS>(pixel, chunk),
                          h + place.piece(y, x, inner + chunk));
        }
        for (int i = thread(); i < T::POSITIONS * T::CHUNKS; i += P::THREADS) {
            int position = i / T::CHUNKS, chunk = i % T::CHUNKS;
            copy_piece(own + T::at(position, chunk),
                       grad + place.piece(position / T::COLUMNS, position % T::COLUMNS, chunk));
        }
        commit_copies();
        await_copies();
        synchronize();
        ROLLED for (int first = 0; first < T::POSITIONS; first += 16) {
            unsigned a[2][4];
            UNROLL for (int m = 0; m < 2; ++m)
                load_matrices<true>(a[m][0], a[m][1], a[m][2], a[m][3],
                                    own + T::at(first + lane % 8 + lane / 16 * 8,
                                                out * 4 + m * 2 + lane / 8 % 2));
            int position = first + lane % 16;
            int pixel = (position / T::COLUMNS + line) * T::WIDE + position % T::COLUMNS;
            UNROLL for (int tap = 0; tap < 3; ++tap)
                UNROLL for (int n = 0; n < 4; n += 2) {
                    unsigned b[2][2];
                    load_matrices<true>(b[0][0], b[0][1], b[1][0], b[1][1],
                                        around + placed<P::CHUNKS>(pixel + tap,
                                                                   in * 4 + n + lane / 16));
                    UNROLL for (int m = 0; m < 2; ++m) {
                        multiply_add(products[tap][m][n], a[m], b[0]);
                        multiply_add(products[tap][m][n + 1], a[m], b[1]);
                    }
                }
        }
    }
    for (int tap = 0; tap < 3; ++tap)
        for (int m = 0; m < 2; ++m)
            for (int n = 0; n < 4; ++n)
                for (int i = 0; i < 4; ++i) {
                    int row = out * 32 + m * 16 + i / 2 * 8 + lane / 4;
                    int column = inner * 8 + in * 32 + n * 8 + lane % 4 * 2 + i % 2;
                    sums[((share * C + row) * TAPS + (top + line) * 3 + tap) * C + column] =
                        products[tap][m][n][i];
                }
}

// The sums of all columns of a matrix, in bfloat16; a block has 32 of them.
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
