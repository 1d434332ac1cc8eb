// What the kernels take from the GPU, by names of our own. A CPU can offer the same.

#define DEVICE __device__ __forceinline__
#define KERNEL(THREADS, BLOCKS) __global__ void __launch_bounds__(THREADS, BLOCKS)
#define SHARED __shared__
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(TIMES) _Pragma(STRING(unroll TIMES))
#define STRING(TEXT) #TEXT
#define ROLLED _Pragma("unroll 1")

struct alignas(16) Piece {  // eight numbers in bfloat16
    unsigned pairs[4];
};
#define NOTHING (Piece{{0, 0, 0, 0}})

DEVICE int thread() { return threadIdx.x; }
DEVICE int block() { return blockIdx.x; }
DEVICE int blocks() { return gridDim.x; }
DEVICE void synchronize() { __syncthreads(); }
DEVICE void fence() { __threadfence(); }
DEVICE int add_atomically(int *to, int value) { return atomicAdd(to, value); }
DEVICE float fresh(const float *from) { return __ldcg(from); }  // not from this processor's cache

// A kernel that was started before the one before it has ended: from here on all that wrote is there,
// and the next one may begin likewise.
DEVICE void await_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
DEVICE void will_read(const Piece *line) { asm volatile("prefetch.global.L2 [%0];" ::"l"(line)); }

DEVICE unsigned pack(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
DEVICE float as_float(unsigned bits) { return __uint_as_float(bits); }

typedef unsigned Spot;  // an address in shared memory, to calculate with
constexpr int PIECE = 16;
DEVICE Spot spot(const Piece *at) { return unsigned(__cvta_generic_to_shared(at)); }
DEVICE void copy_piece(Spot to, const Piece *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }
DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four matrices of 8 x 8; each eight lanes name the rows of one.
template <bool TRANSPOSED>
DEVICE void load_matrices(unsigned &a, unsigned &b, unsigned &c, unsigned &d, Spot row) {
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(row) : "memory");
}

// (16, 8) += (16, 16) times (16, 8), by a warp.
DEVICE void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
