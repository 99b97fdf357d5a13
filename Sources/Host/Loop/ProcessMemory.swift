import CLinux
import CWipe
import Glibc

/// The memory of this process, and its protection against other processes.
public enum ProcessMemory {
  /// Disables core dumps, and prevents other processes of this user from reading the memory.
  ///
  /// - Returns: whether the kernel accepted both.
  public static func hide() -> Bool {
    earshot_hide_memory() == 0
  }

  /// Whether freed memory is overwritten, in the whole process: arrays, texts, and allocations of C libraries. False
  /// only if a sanitizer or a preloaded library replaces the allocator.
  public static var wipesWhatIsFreed: Bool { earshot_free_wipes() != 0 }

  /// Makes the allocator return freed memory to the kernel: blocks of at least 128 KiB immediately, smaller ones when
  /// that much is free at the end of the heap. Otherwise the process would occupy its peak memory permanently.
  public static func giveBackFreed() { earshot_give_back_blocks() }

  /// Releases pages of code that only the start of the process needed. Pages that are still needed are mapped again
  /// from the page cache when they are executed.
  ///
  /// - Returns: bytes of mapped code; 0 if the kernel does not report them.
  @discardableResult
  public static func giveBackCode() -> Int {
    guard let file = fopen("/proc/self/maps", "r") else { return 0 }
    defer { fclose(file) }
    var given = 0
    var line = [CChar](repeating: 0, count: 4096)
    while fgets(&line, Int32(line.count), file) != nil {
      let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      // The fields of a line: address, permissions, offset, device, inode, path.
      let words = text.split(separator: " ")
      let ends = words.first?.split(separator: "-").compactMap { UInt($0, radix: 16) } ?? []
      guard words.count > 5, words[1] == "r-xp", words[5].hasPrefix("/"), ends.count == 2, ends[0] < ends[1],
        madvise(UnsafeMutableRawPointer(bitPattern: ends[0]), Int(ends[1] - ends[0]), MADV_DONTNEED) == 0
      else { continue }
      given += Int(ends[1] - ends[0])
    }
    return given
  }

  /// Overwrites remains of returned calls on this thread's stack, to a depth of 64 KiB. Call it after computing or
  /// copying private data.
  public static func wipeStack() { earshot_wipe_stack() }
}
