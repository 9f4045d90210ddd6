/* test_limits.c - limits of control groups, read from folders that stand for /proc and mounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/os/limits.h"
#include "tests/lib/tmp_dir.h"

static void put(const char *root, const char *path, const char *text)
{
    char full[1024], dir[1024];
    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(full, '/') - full), full);
    assert_int_equal(vc_mkdirs(dir, NULL), 0);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define MOUNT2 "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

/* A job of Slurm: the step's group has no limit of its own, the job's has one of memory, and the
 * group above has more. Pages of files do not count. */
static void test_job(void **state)
{
    put(*state, "proc/self/cgroup", "0::/system.slice/slurm/job_7/step_0/task_1\n");
    put(*state, "proc/self/mountinfo", "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n" MOUNT2);
    const char *const job = "sys/fs/cgroup/system.slice/slurm/job_7";
    static const char *const files[][2] = {
        { "step_0/task_1/memory.max", "max\n" },
        { "memory.max", "8000000\n" }, { "memory.high", "7000000\n" },
        { "memory.current", "3000000\n" },
        { "memory.stat", "anon 1\nfile 2000000\ninactive_file 400000\nactive_file 600000\n" },
        { "cpu.max", "max 100000\n" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", job, files[i][0]);
        put(*state, path, files[i][1]);
    }
    put(*state, "sys/fs/cgroup/system.slice/memory.max", "9000000\n");
    put(*state, "sys/fs/cgroup/system.slice/memory.current", "8900000\n");
    put(*state, "sys/fs/cgroup/system.slice/cpu.max", "250000 100000\n");
    const vc_limits l = vc_limits_read(*state);
    assert_int_equal(l.memory, 7000000);
    assert_int_equal(l.memory_left, 100000);             /* the group above is nearly full */
    assert_true(l.processors == 2.5);
}

/* A container with control groups of its own has its limits at the mount. */
static void test_container(void **state)
{
    put(*state, "proc/self/cgroup", "0::/\n");
    put(*state, "proc/self/mountinfo", MOUNT2);
    put(*state, "sys/fs/cgroup/memory.max", "1000\n");
    put(*state, "sys/fs/cgroup/memory.current", "1500\n");
    put(*state, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    const vc_limits l = vc_limits_read(*state);
    assert_int_equal(l.memory, 1000);
    assert_int_equal(l.memory_left, 0);
    assert_true(l.processors == 0.5);
}

/* Version 1: a hierarchy for each controller; Docker mounts the container's group alone. */
static void test_version_1(void **state)
{
    put(*state, "proc/self/cgroup", "5:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n"
                                    "1:name=systemd:/docker/a\n0::/docker/a\n");
    put(*state, "proc/self/mountinfo",
        "36 31 0:3 /docker/a /cg/memory rw - cgroup cgroup rw,memory\n"
        "37 31 0:4 /docker/a /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "38 31 0:5 /docker/a /cg/cpuset rw - cgroup cgroup rw,cpuset\n");
    put(*state, "cg/memory/memory.limit_in_bytes", "5000\n");
    put(*state, "cg/memory/memory.usage_in_bytes", "4000\n");
    put(*state, "cg/memory/memory.stat", "active_file 1\ntotal_active_file 500\n"
                                         "total_inactive_file 300\n");
    put(*state, "cg/cpu/cpu.cfs_quota_us", "400000\n");
    put(*state, "cg/cpu/cpu.cfs_period_us", "100000\n");
    vc_limits l = vc_limits_read(*state);
    assert_int_equal(l.memory, 5000);
    assert_int_equal(l.memory_left, 1800);
    assert_true(l.processors == 4);
    put(*state, "cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(*state, "cg/cpu/cpu.cfs_quota_us", "-1\n");
    l = vc_limits_read(*state);
    assert_int_equal(l.memory, INT64_MAX);
    assert_int_equal(l.memory_left, INT64_MAX);
    assert_true(l.processors == 0);
}

/* Without limits, or with files of other contents, there are none. */
static void test_none(void **state)
{
    vc_limits l = vc_limits_read(*state);
    assert_int_equal(l.memory, INT64_MAX);
    put(*state, "proc/self/cgroup", "0::/a/../../b\nx\n:\n::\n0::\n");
    put(*state, "proc/self/mountinfo", "\n - \n" MOUNT2);
    put(*state, "sys/fs/cgroup/memory.max", "a lot\n");
    put(*state, "sys/fs/cgroup/cpu.max", "100000 0\n");
    l = vc_limits_read(*state);
    assert_int_equal(l.memory, INT64_MAX);
    assert_int_equal(l.memory_left, INT64_MAX);
    assert_true(l.processors == 0);
    assert_true(vc_within_quota(3) >= 1 && vc_within_quota(3) <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_container, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_version_1, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_none, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
