internal import CMemFD

/// Files of procfs, sysfs and similar, whose content the kernel generates on reading (statfs(2)).
///
/// The content of such a file may depend on the reader. A program that passes one to a service could read data without
/// permission through the service, such as addresses of the service's memory.
public enum KernelFile {
  /// File systems with the kernel's own state: `f_type` of statfs(2), from `linux/magic.h`.
  private static let kernelTypes: Set<UInt32> = [
    0x9FA0,  // procfs
    0x6265_6572,  // sysfs
    0x6462_6720,  // debugfs
    0x7472_6163,  // tracefs
    0x7363_6673,  // securityfs
    0xF97C_FF8C,  // selinuxfs
    0x4341_5D53,  // smackfs
    0x5A3C_69F0,  // AppArmor
    0x0027_E0EB,  // cgroup
    0x6367_7270,  // cgroup2
    0x6265_6570,  // configfs
    0xCAFE_4A11,  // bpf
    0x6165_676C,  // pstore
    0xDE5E_81E4,  // efivarfs
    0x4249_4E4D,  // binfmt_misc
    0x6E73_6673,  // nsfs
    0x6573_5543,  // fusectl
    0x0765_5821,  // resctrl
    0x5849_4D45,  // ima
    0x1980_0202,  // mqueue
    0x0904_1934,  // anonymous inodes
    0x5049_4446,  // pidfs
  ]

  /// File systems that may report no blocks although their files contain data: tmpfs (and memory files), ramfs,
  /// hugetlbfs, FUSE, NFS, CIFS, SMB 2 and 9p.
  private static let typesWithoutBlocks: Set<UInt32> = [
    0x0102_1994, 0x8584_58F6, 0x9584_58F6, 0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997,
  ]

  /// Whether a file belongs to one of the kernel's file systems. An unknown file system that reports no blocks counts
  /// as one, and so does a descriptor on which `fstatfs` fails.
  public static func isOne(_ descriptor: Int32) -> Bool {
    var information = statfs()
    guard fstatfs(descriptor, &information) == 0 else { return true }
    let type = UInt32(truncatingIfNeeded: information.f_type)
    return kernelTypes.contains(type) || information.f_blocks == 0 && !typesWithoutBlocks.contains(type)
  }
}
