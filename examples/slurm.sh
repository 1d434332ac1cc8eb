#!/bin/bash
# A grid of runs as an array of Slurm jobs: job K of N makes every N-th run of a bench.
#
#   sbatch --array=1-8 examples/slurm.sh lt --scale 1/8 --root /data/cifar10
#   tamatch bench lt --scale 1/8 --show
#
# What follows the script's name is the bench and its options. A job that Slurm ends, or that fails,
# has saved its run: submit the same line again, and it goes on there. Finished runs are skipped.
# Settings of a cluster (partition, account, another time) go before the script's name.

#SBATCH --job-name=tamatch
#SBATCH --output=slurm-%A_%a.log
#SBATCH --cpus-per-task=4
#SBATCH --gpus=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue

exec tamatch bench "$@" --cell "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_MAX"
