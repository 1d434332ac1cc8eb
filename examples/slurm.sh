#!/bin/bash
# A bench as an array of Slurm jobs: job K of N makes every N-th run, starting with the K-th.
#
#   sbatch --array=1-8 examples/slurm.sh lt --scale 1/8 --root /data/cifar10
#   tamatch bench lt --scale 1/8 --show
#
# The arguments after the script's name are the bench and its options. A job that Slurm stops, or
# that fails, has saved its run: submit the same line again to resume it. Finished runs are skipped.
# Cluster settings (partition, account, another time limit) go before the script's name.

#SBATCH --job-name=tamatch
#SBATCH --output=slurm-%A_%a.log
#SBATCH --cpus-per-task=4
#SBATCH --gpus=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue

exec tamatch bench "$@" --cell "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_MAX"
