// What is launched: a grid of blocks of threads, or of clusters of such blocks.
#pragma once
#include <functional>

#include "lane.h"

namespace lscd::simt {

constexpr int MOST_THREADS = 1024;  // of a block
constexpr int MOST_CLUSTER = 2;     // blocks; a GPU takes eight

struct Launch {
    std::function<void()> kernel;  // what a thread does
    int number;
    Index grid, threads;
    int shared_bytes;
    bool early;   // may begin before the grid before it has ended
    int cluster;  // blocks of one, along x

    int warps_of_block() const { return int(threads.count() + 31) / 32; }

    // Where the block of that rank in a cluster is in the grid. Without clusters, each block is one.
    Index index_of(int number, int rank) const {
        unsigned of_cluster = unsigned(cluster), along_x = grid.x / of_cluster, n = unsigned(number);
        return {n % along_x * of_cluster + unsigned(rank), n / along_x % grid.y, n / along_x / grid.y};
    }
};

}  // namespace lscd::simt
