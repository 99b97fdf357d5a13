import Common
import Glibc
import MemoryFiles

/// A file descriptor with an owner: it is closed when the last reference goes. Two are equal if they are one object.
public final class FileDescriptor: Sendable, Hashable {
  private static let none: Int32 = -1
  private let number: Locked<Int32>

  /// - Parameter owning: an open descriptor that no other code closes.
  public init(owning descriptor: Int32) {
    number = Locked(descriptor)
  }

  deinit {
    close()
  }

  /// A memory file with `bytes` in it that no program can change any more, to be read from its beginning.
  ///
  /// - Parameter name: shown in `/proc`, for debugging only; at most 249 bytes without U+0000 (`InvalidArgs`).
  public static func sealed(_ bytes: [UInt8], name: String) throws(DBusError) -> FileDescriptor {
    guard Validity.isText(name), name.utf8.count <= 249 else {
      throw .invalidArgs("A memory file's name has at most 249 bytes and no NUL.")
    }
    do throws(MemoryFile.Failure) {
      return FileDescriptor(owning: try MemoryFile.sealed(bytes, name: name))
    } catch {
      throw .failed("No memory file can be made: \(reason(error.number)).")
    }
  }

  /// The number, for system calls while this object is held; -1 once it is closed or taken.
  public var raw: Int32 { number.withLock { $0 } }

  /// Another descriptor for the same open file, with an owner of its own.
  public func duplicate() throws(DBusError) -> FileDescriptor {
    let copy = number.withLock { fcntl($0, F_DUPFD_CLOEXEC, 3) }
    guard copy >= 0 else { throw .failed("The descriptor cannot be duplicated: \(reason(errno)).") }
    return FileDescriptor(owning: copy)
  }

  /// The same file opened once more, to be read from its beginning: unlike with a duplicate, who reads one of the two does not
  /// move the place at which the other is read.
  public func reopened() throws(DBusError) -> FileDescriptor {
    do throws(MemoryFile.Failure) {
      return FileDescriptor(
        owning: try number.withLock { (number) throws(MemoryFile.Failure) in try MemoryFile.reopened(number) })
    } catch {
      throw .failed("The descriptor cannot be opened once more: \(reason(error.number)).")
    }
  }

  /// Whether the file is open a second time, here or in another program. Of a memory file that `sealed` has made, and that is not
  /// open for writing anywhere.
  public var isOpenElsewhere: Bool { number.withLock { MemoryFile.isOpenElsewhere($0) } }

  /// All bytes of a memory file, without moving the place at which it is read.
  public func contents() throws(DBusError) -> [UInt8] {
    var status = stat()
    guard fstat(raw, &status) == 0 else { throw .failed("The descriptor cannot be read: \(reason(errno)).") }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeMutableBytes {
        pread(raw, $0.baseAddress?.advanced(by: done), $0.count - done, off_t(done))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw .failed("The descriptor cannot be read: \(reason(errno)).") }
      done += count
    }
    return bytes
  }

  /// Hands the open descriptor over to the caller, who closes it; nil if it was taken or closed before.
  public func take() -> Int32? {
    number.withLock { number in
      defer { number = Self.none }
      return number >= 0 ? number : nil
    }
  }

  /// Closes it now; nothing happens the second time.
  public func close() {
    if let descriptor = take() { _ = Glibc.close(descriptor) }
  }

  /// Reads to the end, from where the file stands, without ever waiting for a writer.
  ///
  /// - Parameter limit: the most bytes that are taken; one more is a `LimitExceeded`.
  /// - Throws: `NotReady` when a pipe or socket is still open on the other side and has nothing to read.
  public func readAll(limit: Int) throws(DBusError) -> [UInt8] {
    let descriptor = raw
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .failed("The descriptor cannot be read: \(reason(errno)).") }
    let isFile = status.st_mode & S_IFMT == S_IFREG
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: min(max(limit, 0) + 1, 1 << 16))
    while true {
      if !isFile, !Self.hasInput(descriptor) {
        throw .notReady("The descriptor has no end yet: its writer is still open.")
      }
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .failed("The descriptor cannot be read: \(reason(errno)).") }
      guard count > 0 else { return bytes }
      guard bytes.count + count <= limit else { throw .limitExceeded("The descriptor has more than \(limit) bytes.") }
      bytes += buffer[..<count]
    }
  }

  /// Reads a file of another program to its end, from where it stands. This waits for the disk that the file is on, and for
  /// as long as that takes.
  ///
  /// - Parameters:
  ///   - limit: the most bytes that are taken; one more is a `LimitExceeded`.
  ///   - isGivenUp: asked after each part; true ends the reading with `Timeout`.
  /// - Throws: `InvalidArgs` for anything but a regular file or a sealed memory file: a pipe, a socket or a device may never
  ///   come to its end, a memory file that is not sealed may change while it is read, and a file of procfs, sysfs and their like
  ///   shows this process's own state.
  func readFile(limit: Int, isGivenUp: () -> Bool = { false }) throws(DBusError) -> [UInt8] {
    let descriptor = raw
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .failed("The file cannot be read: \(reason(errno)).") }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw .invalidArgs("Only a file or a sealed memory file can be passed, no pipe, socket or device.")
    }
    guard !KernelFile.isOne(descriptor) else {
      throw .invalidArgs("A file of procfs, sysfs or another file system of the kernel's own state cannot be passed.")
    }
    guard !MemoryFile.isUnsealed(descriptor) else {
      throw .invalidArgs("A memory file must be sealed against writing, growing and shrinking.")
    }
    guard status.st_size <= limit else { throw .limitExceeded("The file has more than \(limit) bytes.") }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: min(max(limit, 0) + 1, 1 << 16))
    while !isGivenUp() {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .failed("The file cannot be read: \(reason(errno)).") }
      guard count > 0 else { return bytes }
      guard bytes.count + count <= limit else { throw .limitExceeded("The file has more than \(limit) bytes.") }
      bytes += buffer[..<count]
    }
    throw .timeout("The file took too long.")
  }

  private static func hasInput(_ descriptor: Int32) -> Bool {
    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&request, 1, 0) > 0
  }

  public static func == (left: FileDescriptor, right: FileDescriptor) -> Bool { left === right }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(self))
  }
}

/// What the system says about an error number.
func reason(_ number: Int32) -> String {
  strerror(number).map { String(cString: $0) } ?? "error \(number)"
}
