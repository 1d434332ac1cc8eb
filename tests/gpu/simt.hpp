// `primitives.cuh` on a CPU: a block's threads as fibers of one thread. Some warp runs as far as it can,
// its threads in a random order, then some other, so that a forgotten synchronisation shows. Blocks run
// one after the other, in a random order, too. Touching memory that is not there ends the launch.

#include <csetjmp>
#include <csignal>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#define DEVICE inline
#define KERNEL(THREADS, BLOCKS) void
#define SHARED static
#define UNROLL
#define UNROLL_BY(TIMES)
#define ROLLED

using std::min;

struct alignas(16) Piece {
    unsigned pairs[4];
};
#define NOTHING (Piece{{0, 0, 0, 0}})
typedef std::uintptr_t Spot;
constexpr int PIECE = 16;
inline Spot spot(const Piece *at) { return reinterpret_cast<Spot>(at); }
inline const Piece *at(Spot spot) { return reinterpret_cast<const Piece *>(spot); }

struct Barrier {
    int waiting = 0;
    long generation = 0;
};
struct Lane {
    const Piece *row;
    float value;
    unsigned a[4], b[2];
};
struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(1 << 18);
    std::vector<std::pair<Spot, const Piece *>> copies;
    Lane lane;
    bool done, held;  // held: until all threads of the block have come as far
};
struct Machine {
    std::vector<Fiber> fibers;
    ucontext_t scheduler;
    Barrier all, warps[32];
    int thread, block, blocks;
    std::function<void()> kernel;
};
static Machine machine;

inline Fiber &self() { return machine.fibers[machine.thread]; }
inline int thread() { return machine.thread; }
inline int block() { return machine.block; }
inline int blocks() { return machine.blocks; }
inline void wait(Barrier &barrier, int count) {
    long now = barrier.generation;
    if (++barrier.waiting == count) {
        barrier.waiting = 0;
        ++barrier.generation;
    }
    while (barrier.generation == now) swapcontext(&self().context, &machine.scheduler);
}
inline void synchronize() {
    self().held = true;
    wait(machine.all, int(machine.fibers.size()));
    self().held = false;
}
inline void of_warp() { wait(machine.warps[machine.thread / 32], 32); }
inline Lane &lane_of_warp(int lane) { return machine.fibers[machine.thread / 32 * 32 + lane].lane; }

inline void fence() {}
inline void await_previous() {}
inline void will_read(const Piece *) {}
inline float fresh(const float *from) { return *from; }
inline int add_atomically(int *to, int value) { return (*to += value) - value; }
inline float as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline unsigned rounded(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline unsigned pack(float low, float high) { return rounded(low) | rounded(high) << 16; }

// Done only when they are awaited, as late as can be.
inline void copy_piece(Spot to, const Piece *from) { self().copies.push_back({to, from}); }
inline void commit_copies() {}
inline void await_copies() {
    for (auto [to, from] : self().copies) *reinterpret_cast<Piece *>(to) = *from;
    self().copies.clear();
}

inline unsigned element(const Piece *row, int column) {
    return row->pairs[column / 2] >> column % 2 * 16 & 0xffff;
}
template <bool TRANSPOSED>
inline void load_matrices(unsigned &a, unsigned &b, unsigned &c, unsigned &d, Spot row) {
    int lane = machine.thread % 32, pair = lane % 4 * 2, other = lane / 4;
    unsigned *results[4] = {&a, &b, &c, &d};
    self().lane.row = at(row);
    of_warp();
    for (int matrix = 0; matrix < 4; ++matrix) {
        auto bits = [&](int y, int x) { return element(lane_of_warp(matrix * 8 + y).row, x); };
        *results[matrix] = TRANSPOSED ? bits(pair, other) | bits(pair + 1, other) << 16
                                      : bits(other, pair) | bits(other, pair + 1) << 16;
    }
    of_warp();
}
inline float half(unsigned pair, int which) { return as_float(which ? pair & 0xffff0000u : pair << 16); }
inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    Lane &own = self().lane;
    std::copy(a, a + 4, own.a);
    std::copy(b, b + 2, own.b);
    of_warp();
    int lane = machine.thread % 32;
    for (int i = 0; i < 4; ++i) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k)
            sums[i] += half(lane_of_warp(row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2], k % 2) *
                       half(lane_of_warp(column * 4 + k % 8 / 2).b[k / 8], k % 2);
    }
    of_warp();
}

inline void fiber_main() {
    machine.kernel();
    self().done = true;
    swapcontext(&self().context, &machine.scheduler);
}
static sigjmp_buf left;
inline void leave(int) { siglongjmp(left, 1); }
inline void run(int blocks, int threads, int seed, std::function<void()> kernel) {
    std::mt19937 random(seed);
    std::vector<int> places(blocks), lanes(32);
    std::iota(places.begin(), places.end(), 0);
    std::iota(lanes.begin(), lanes.end(), 0);
    std::shuffle(places.begin(), places.end(), random);
    machine.fibers.resize(threads);
    machine.all = {};
    std::fill(machine.warps, machine.warps + 32, Barrier());
    machine.blocks = blocks;
    machine.kernel = kernel;
    for (int place : places) {
        machine.block = place;
        for (Fiber &fiber : machine.fibers) {
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.data();
            fiber.context.uc_stack.ss_size = fiber.stack.size();
            fiber.copies.clear();
            fiber.done = fiber.held = false;
            makecontext(&fiber.context, fiber_main, 0);
        }
        for (int left = threads; left > 0;) {
            int warp = int(random() % (threads / 32));
            for (bool moves = true; moves;) {
                moves = false;
                std::shuffle(lanes.begin(), lanes.end(), random);
                for (int lane : lanes) {
                    Fiber &fiber = machine.fibers[machine.thread = warp * 32 + lane];
                    if (fiber.done) continue;
                    swapcontext(&machine.scheduler, &fiber.context);
                    left -= fiber.done;
                    moves |= !fiber.done && !fiber.held;
                }
            }
        }
    }
}
// Whether all its accesses were to memory that is there.
inline bool launch(int blocks, int threads, int seed, std::function<void()> kernel) {
    struct sigaction ours = {}, before;
    ours.sa_handler = leave;
    sigaction(SIGSEGV, &ours, &before);
    bool stayed = sigsetjmp(left, 1) == 0;
    if (stayed) run(blocks, threads, seed, kernel);
    sigaction(SIGSEGV, &before, nullptr);
    return stayed;
}
