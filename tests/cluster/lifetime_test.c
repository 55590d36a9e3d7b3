/* Whatever ends a virtual cluster, nothing of it is left; and what it refuses. */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/cluster.h"
#include "support/process.h"
#include "support/test.h"

/* The PID namespace of a process, 0 where it has ended. */
static ino_t namespace_of(const char *process)
{
    char path[LS__PATH_SIZE];
    struct stat info;

    snprintf(path, sizeof path, "/proc/%.16s/ns/pid", process);
    return stat(path, &info) == 0 ? info.st_ino : 0;
}

/* All of a cluster's processes live in its PID namespace, and its network and mounts with them. */
static int count_processes(ino_t of)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += atoi(entry->d_name) > 0 && namespace_of(entry->d_name) == of;
    closedir(dir);
    return count;
}

static int count_interfaces(void)
{
    struct if_nameindex *all = if_nameindex();
    int count = 0;

    assert_non_null(all);
    while (all[count].if_index)
        count++;
    if_freenameindex(all);
    return count;
}

static int count_mounts(void)
{
    FILE *file = fopen("/proc/self/mounts", "r");
    int count = 0;

    assert_non_null(file);
    for (int c = fgetc(file); c != EOF; c = fgetc(file))
        count += c == '\n';
    fclose(file);
    return count;
}

/* Ranks that would run for minutes, told from the outside or by `command` itself to end. `command`
 * starts "$@", the ranks. */
static void end_by(const char *signal, const char *command, int exit_code)
{
    const char *left = ls__test_path("namespace");
    const char *words[] = {
        "timeout",   "--signal", signal,         "2",     "scripts/virtual-cluster",
        "2",         "1gbit",    "sh",           "-c",    command,
        left,        "mpirun",   ls__lockstep(), "bench", "allreduce",
        "--repeats", "1000",     "--min-bytes",  "64M",   NULL};
    int interfaces = count_interfaces();
    int mounts = count_mounts();
    char text[64];
    ls__process p;

    ls__process_run(&(ls__command){.argv = words, .timeout_s = 20}, &p);
    assert_exit(p, exit_code);
    ls__process_free(&p);
    assert_ok(ls__file_read_text(left, text, sizeof text));
    ino_t of = strtoul(text, NULL, 10);
    assert_true(of > 0);
    double deadline = ls__clock_seconds() + 5;
    while (count_processes(of) > 0 && ls__clock_seconds() < deadline)
        usleep(20000);
    assert_int_equal(count_processes(of), 0);
    assert_int_equal(count_interfaces(), interfaces);
    assert_int_equal(count_mounts(), mounts);
}

#define RECORD "stat -Lc %i /proc/self/ns/pid >\"$0\"; "

static void test_ends(void **state)
{
    (void)state;
    ls__cluster_require();
    end_by("KILL", RECORD "\"$@\"", -1); /* timeout ends by this signal as well */
    end_by("TERM", RECORD "\"$@\"", 124);
    end_by("INT", RECORD "\"$@\"", 124);
    /* mpirun is killed, its daemons and ranks are not. */
    end_by("KILL", RECORD "\"$@\" & sleep 1; kill -KILL $!; exit 5", 5);
    /* What COMMAND leaves running ends with it. */
    end_by("KILL", RECORD "sleep 100 & exit 6", 6);
}

static void refuse(const char *const *words, int exit_code, const char *says)
{
    ls__process p;

    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, exit_code);
    assert_one_line(p, says);
    ls__process_free(&p);
}

#define CLUSTER(...)                                 \
    (const char *const[])                            \
    {                                                \
        "scripts/virtual-cluster", __VA_ARGS__, NULL \
    }

static void test_wrong_use(void **state)
{
    (void)state;
    refuse(CLUSTER("2", "1gbit"), 2, "usage: ");
    refuse(CLUSTER("0", "1gbit", "true"), 2, "N is how many hosts, 1 to 250, not '0'");
    refuse(CLUSTER("--slots", "few", "2", "1gbit", "true"), 2, "not 'few'");
    refuse(CLUSTER("--fast", "2", "1gbit", "true"), 2, "there is no --fast");
    ls__cluster_require();
    refuse(CLUSTER("2", "quick", "true"), 2, "\"quick\"");
    refuse(CLUSTER("--bytes", "/no/folder/bytes", "2", "1gbit", "true"), 2, "/no/folder/bytes");
}

/* As in a container, where root lacks the capability. */
static void test_not_permitted(void **state)
{
    static const char *const words[] = {"setpriv",    "--bounding-set", "-sys_admin",
                                        "--inh-caps", "-sys_admin",     "scripts/virtual-cluster",
                                        "2",          "1gbit",          "true",
                                        NULL};

    (void)state;
    ls__cluster_require();
    if (geteuid() != 0)
        skip();
    refuse(words, 77, "not permitted here: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_not_permitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
