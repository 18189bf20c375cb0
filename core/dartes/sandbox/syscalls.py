"""Numbers of the system calls that a confined program is refused, for x86-64 and 64-bit ARM.

From the kernel's own tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
Calls from 424 on have one number everywhere.
"""

NEWEST = 462
"""The last call that the tables below were checked against; later ones are answered with ENOSYS."""

_COMMON = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_open": 434, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448, "statmount": 457, "listmount": 458,
    "lsm_set_self_attr": 460,
}  # fmt: skip

_X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43, "sendmsg": 46,
    "recvmsg": 47, "bind": 49, "listen": 50, "fork": 57, "vfork": 58, "execve": 59, "semget": 64,
    "semop": 65, "semctl": 66, "shmdt": 67, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
    "ptrace": 101, "syslog": 103, "setuid": 105, "setgid": 106, "setpgid": 109, "setsid": 112,
    "setreuid": 113, "setregid": 114, "setgroups": 116, "setresuid": 117, "setresgid": 119,
    "setfsuid": 122, "setfsgid": 123, "capset": 126, "rt_sigqueueinfo": 129, "mknod": 133,
    "uselib": 134, "personality": 135, "setpriority": 141, "sched_setparam": 142,
    "sched_setscheduler": 144, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156,
    "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "tkill": 200,
    "sched_setaffinity": 203, "io_setup": 206, "io_submit": 209, "semtimedop": 220,
    "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "mq_open": 240, "mq_unlink": 241,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251,
    "inotify_init": 253, "migrate_pages": 256, "mknodat": 259, "unshare": 272, "move_pages": 279,
    "accept4": 288, "inotify_init1": 294, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
    "recvmmsg": 299, "fanotify_init": 300, "fanotify_mark": 301, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "sendmmsg": 307, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
    "sched_setattr": 314, "seccomp": 317, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321,
    "execveat": 322, "userfaultfd": 323,
}  # fmt: skip

_AARCH64 = {
    "io_setup": 0, "io_submit": 2, "inotify_init1": 26, "ioprio_set": 30, "mknodat": 33, "umount2": 39,
    "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60, "acct": 89, "capset": 91,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "tkill": 130, "rt_sigqueueinfo": 138,
    "setpriority": 140, "reboot": 142, "setregid": 143, "setgid": 144, "setreuid": 145, "setuid": 146,
    "setresuid": 147, "setresgid": 149, "setfsuid": 151, "setfsgid": 152, "setpgid": 154, "setsid": 157,
    "setgroups": 159, "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "adjtimex": 171,
    "mq_open": 180, "mq_unlink": 181, "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189,
    "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "shmget": 194, "shmctl": 195,
    "shmat": 196, "shmdt": 197, "socket": 198, "bind": 200, "listen": 201, "accept": 202, "connect": 203,
    "sendmsg": 211, "recvmsg": 212, "add_key": 217, "request_key": 218, "keyctl": 219, "execve": 221,
    "swapon": 224, "swapoff": 225, "mbind": 235, "set_mempolicy": 237, "migrate_pages": 238,
    "move_pages": 239, "rt_tgsigqueueinfo": 240, "perf_event_open": 241, "accept4": 242,
    "recvmmsg": 243, "fanotify_init": 262, "fanotify_mark": 263, "name_to_handle_at": 264,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "sendmmsg": 269,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "sched_setattr": 274, "seccomp": 277, "memfd_create": 279, "bpf": 280, "execveat": 281,
    "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip

REFUSED = {"x86_64": {**_X86_64, **_COMMON}, "aarch64": {**_AARCH64, **_COMMON}}
"""Calls that are refused whatever their arguments, by machine (`os.uname().machine`)."""

JUDGED = {
    "x86_64": {
        "clone": 56, "clone3": 435, "kill": 62, "tgkill": 234, "prlimit64": 302, "sendto": 44,
        "socketpair": 53, "open": 2, "openat": 257,
    },
    "aarch64": {
        "clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "prlimit64": 261, "sendto": 206,
        "socketpair": 199, "openat": 56,
    },
}  # fmt: skip
"""Calls that are allowed with some arguments only."""

ATTRIBUTES = {
    "x86_64": {
        "truncate": 76, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "utime": 132,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
        "fremovexattr": 199, "utimes": 235, "fchownat": 260, "futimesat": 261, "fchmodat": 268,
        "utimensat": 280, "fchmodat2": 452,
    },
    "aarch64": {
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "truncate": 45, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55,
        "utimensat": 88, "fchmodat2": 452,
    },
}  # fmt: skip
"""Calls that change a file without opening it for writing. Landlock lets them pass (the first by version),
so they are refused where no read-only view does it."""

FILES = {
    "x86_64": {
        "open": 2, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87,
        "symlink": 88, "readlink": 89, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
        "linkat": 265, "symlinkat": 266, "readlinkat": 267, "renameat2": 316,
    },
    "aarch64": {
        "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "openat": 56,
        "readlinkat": 78, "renameat2": 276,
    },
}  # fmt: skip
"""Calls on files and folders by path, refused where neither Landlock nor a view hides other people's."""
