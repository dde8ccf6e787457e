/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mpi_all_reduce - what bench_collective is held against: MPI_Allreduce of
 * floats over two processes, large and small.  Compiled by that with mpicc,
 * where there is one; prints the median of each in ns.  A sum that is wrong
 * ends it.
 *
 *	mpirun -n 2 mpi_all_reduce BYTES ROUNDS SMALL_ROUNDS
 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void check(const float *to, int n, int ranks)
{
	for (int i = 0; i < n; i++) {
		int want = ranks * (i % 127) + ranks * (ranks - 1) / 2;

		if (to[i] == (float)want)
			continue;
		fprintf(stderr, "mpi_all_reduce: element %d is %g, not %d\n", i,
			(double)to[i], want);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static double median_ns(const float *from, float *to, int n, int rounds)
{
	double *took = malloc((size_t)rounds * sizeof(*took)), ns;

	for (int i = 0; i < rounds; i++) {
		double start;

		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		MPI_Allreduce(from, to, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		took[i] = (MPI_Wtime() - start) * 1e9;
	}
	qsort(took, (size_t)rounds, sizeof(*took), compare);
	ns = took[rounds / 2];
	free(took);
	return ns;
}

int main(int argc, char **argv)
{
	double large, small;
	float *from, *to;
	int n, rank, ranks;

	MPI_Init(&argc, &argv);
	if (argc != 4)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	n = atoi(argv[1]) / (int)sizeof(*from);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	from = malloc((size_t)n * sizeof(*from));
	to = malloc((size_t)n * sizeof(*to));
	for (int i = 0; i < n; i++) {
		from[i] = (float)(i % 127 + rank);
		to[i] = 0;
	}
	median_ns(from, to, n, 2);
	large = median_ns(from, to, n, atoi(argv[2]));
	check(to, n, ranks);
	median_ns(from, to, 2, 1000);
	to[0] = to[1] = -1;
	small = median_ns(from, to, 2, atoi(argv[3]));
	check(to, 2, ranks);
	if (rank == 0)
		printf("%.0f %.0f\n", large, small);
	free(from);
	free(to);
	MPI_Finalize();
	return 0;
}
