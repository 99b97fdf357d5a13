import Common
import Glibc
import MemoryFiles

/// An owned file descriptor, which is closed when the last reference is released. Two values are equal if they are the
/// same object.
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

  /// A memory file with `bytes` that no program can change, positioned at its beginning.
  ///
  /// - Parameter name: shown in `/proc`, for debugging only; at most 249 bytes without U+0000 (`InvalidArgs`).
  public static func sealed(_ bytes: [UInt8], name: String) throws(DBusError) -> FileDescriptor {
    guard Validity.isText(name), name.utf8.count <= 249 else {
      throw .invalidArgs("A memory file's name has at most 249 bytes and no NUL.")
    }
    do throws(MemoryFile.Failure) {
      return FileDescriptor(owning: try MemoryFile.sealed(bytes, name: name))
    } catch {
      throw .failed("A memory file cannot be created: \(reason(error.number)).")
    }
  }

  /// The number, for system calls while this object is referenced; -1 after it was closed or taken.
  public var raw: Int32 { number.withLock { $0 } }

  /// Duplicates the descriptor for the same open file, with a separate owner.
  public func duplicate() throws(DBusError) -> FileDescriptor {
    let copy = number.withLock { fcntl($0, F_DUPFD_CLOEXEC, 3) }
    guard copy >= 0 else { throw .failed("The descriptor cannot be duplicated: \(reason(errno)).") }
    return FileDescriptor(owning: copy)
  }

  /// Opens the same file again, positioned at its beginning. Unlike a duplicate, it has its own read position.
  public func reopened() throws(DBusError) -> FileDescriptor {
    do throws(MemoryFile.Failure) {
      return FileDescriptor(
        owning: try number.withLock { (number) throws(MemoryFile.Failure) in try MemoryFile.reopened(number) })
    } catch {
      throw .failed("The descriptor cannot be reopened: \(reason(error.number)).")
    }
  }

  /// Whether the file is also open elsewhere, in this or another program. The result is valid for a memory file from
  /// `sealed` that is not open for writing anywhere.
  public var isOpenElsewhere: Bool { number.withLock { MemoryFile.isOpenElsewhere($0) } }

  /// All bytes of a memory file, without changing its read position.
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

  /// Returns the open descriptor, which the caller must close; nil if it was taken or closed before.
  public func take() -> Int32? {
    number.withLock { number in
      defer { number = Self.none }
      return number >= 0 ? number : nil
    }
  }

  /// Closes the descriptor now; a second call has no effect.
  public func close() {
    if let descriptor = take() { _ = Glibc.close(descriptor) }
  }

  /// Reads from the present position to the end, without waiting for a writer.
  ///
  /// - Parameter limit: maximum bytes; a longer content gives `LimitExceeded`.
  /// - Throws: `NotReady` if a pipe or socket is open at the other end and contains no data.
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

  /// Reads another program's file from the present position to the end. The call blocks until the file system answers.
  ///
  /// - Parameters:
  ///   - limit: maximum bytes; a longer content gives `LimitExceeded`.
  ///   - isGivenUp: called after each part; true ends the call with `Timeout`.
  /// - Throws: `InvalidArgs` for anything but a regular file or a sealed memory file. A pipe, a socket or a device may
  ///   never end; an unsealed memory file may change meanwhile; a file of procfs, sysfs or similar shows this process's
  ///   own state.
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

/// The system's description of an `errno` value.
func reason(_ number: Int32) -> String {
  strerror(number).map { String(cString: $0) } ?? "error \(number)"
}
