import Glibc

/// The real file system, through system calls.
public struct SystemFileSystem: FileSystem {
  public init() {}

  public var user: UInt32 { geteuid() }

  public func openDirectory(_ path: String) throws(StoreError) -> any Directory {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw StoreError(errno: errno, "opened", path) }
    return SystemDirectory(descriptor, path)
  }
}

private final class SystemDirectory: Directory {
  private let descriptor: Int32
  let path: String

  init(_ descriptor: Int32, _ path: String) {
    self.descriptor = descriptor
    self.path = path
  }

  deinit {
    close(descriptor)
  }

  func status() throws(StoreError) -> FileStatus {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw StoreError(errno: errno, "examined", path) }
    return FileStatus(status)
  }

  func status(of name: String) throws(StoreError) -> FileStatus? {
    var status = stat()
    if fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 { return FileStatus(status) }
    guard errno == ENOENT else { throw StoreError(errno: errno, "examined", path(of: name)) }
    return nil
  }

  func names() throws(StoreError) -> [String] {
    // A stream takes ownership of its descriptor and shares its position with duplicates, so it gets a separate
    // descriptor.
    let own = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard own >= 0 else { throw StoreError(errno: errno, "listed", path) }
    guard let stream = fdopendir(own) else {
      let number = errno
      close(own)
      throw StoreError(errno: number, "listed", path)
    }
    defer { closedir(stream) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        guard errno == 0 else { throw StoreError(errno: errno, "listed", path) }
        return names
      }
      let bytes = withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
      if let name = String(validating: bytes, as: UTF8.self), name != ".", name != ".." { names.append(name) }
    }
  }

  func open(_ name: String) throws(StoreError) -> any OpenFile {
    try open(name, O_RDONLY, "opened")
  }

  func create(_ name: String) throws(StoreError) -> any OpenFile {
    try open(name, O_WRONLY | O_CREAT | O_EXCL, "made")
  }

  func openForOverwriting(_ name: String) throws(StoreError) -> any OpenFile {
    try open(name, O_WRONLY, "overwritten")
  }

  private func open(_ name: String, _ flags: Int32, _ doing: String) throws(StoreError) -> any OpenFile {
    // Without O_NONBLOCK, opening a pipe of that name would block the service.
    let file = openat(descriptor, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0o600)
    guard file >= 0 else { throw StoreError(errno: errno, doing, path(of: name)) }
    let opened = SystemFile(file, path(of: name))
    guard try opened.status().kind == .file else { throw StoreError(errno: EISDIR, doing, path(of: name)) }
    return opened
  }

  func rename(_ name: String, to new: String) throws(StoreError) {
    guard renameat(descriptor, name, descriptor, new) == 0 else {
      throw StoreError(errno: errno, "renamed to \(new)", path(of: name))
    }
  }

  func unlink(_ name: String) throws(StoreError) {
    guard unlinkat(descriptor, name, 0) == 0 else { throw StoreError(errno: errno, "removed", path(of: name)) }
  }

  func link(_ name: String, as new: String, in directory: any Directory) throws(StoreError) {
    guard let other = directory as? SystemDirectory else {
      throw StoreError(errno: EXDEV, "linked", path(of: name))
    }
    guard linkat(descriptor, name, other.descriptor, new, 0) == 0 else {
      throw StoreError(errno: errno, "linked as \(other.path(of: new))", path(of: name))
    }
  }

  func makeDirectory(_ name: String) throws(StoreError) {
    guard mkdirat(descriptor, name, 0o700) == 0 else { throw StoreError(errno: errno, "made", path(of: name)) }
  }

  func openDirectory(_ name: String) throws(StoreError) -> any Directory {
    let inner = openat(descriptor, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
    guard inner >= 0 else { throw StoreError(errno: errno, "opened", path(of: name)) }
    return SystemDirectory(inner, path(of: name))
  }

  func sync() throws(StoreError) {
    guard fsync(descriptor) == 0 else { throw StoreError(errno: errno, "synchronized", path) }
  }

  func lock() throws(StoreError) {
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw StoreError(errno: errno, "locked", path) }
  }
}

private final class SystemFile: OpenFile {
  private let descriptor: Int32
  private let path: String

  init(_ descriptor: Int32, _ path: String) {
    self.descriptor = descriptor
    self.path = path
  }

  deinit {
    close(descriptor)
  }

  func status() throws(StoreError) -> FileStatus {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw StoreError(errno: errno, "examined", path) }
    return FileStatus(status)
  }

  func read(atMost count: Int) throws(StoreError) -> [UInt8] {
    let size = min(max(count, 0), try status().size)
    var bytes = [UInt8](repeating: 0, count: size)
    var done = 0
    while done < size {
      let part = bytes.withUnsafeMutableBytes {
        $0.baseAddress.map { pread(descriptor, $0 + done, size - done, off_t(done)) } ?? 0
      }
      if part < 0, errno == EINTR { continue }
      guard part >= 0 else { throw StoreError(errno: errno, "read", path) }
      // The file was truncated meanwhile.
      guard part > 0 else { return Array(bytes.prefix(done)) }
      done += part
    }
    return bytes
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError) {
    var done = 0
    while done < bytes.count {
      let part = bytes.withUnsafeBytes {
        $0.baseAddress.map { pwrite(descriptor, $0 + done, bytes.count - done, off_t(offset + done)) } ?? 0
      }
      if part < 0, errno == EINTR { continue }
      guard part > 0 else { throw StoreError(errno: part == 0 ? ENOSPC : errno, "written", path) }
      done += part
    }
  }

  func sync() throws(StoreError) {
    guard fsync(descriptor) == 0 else { throw StoreError(errno: errno, "synchronized", path) }
  }
}

extension FileStatus {
  fileprivate init(_ status: stat) {
    let kind: Kind =
      switch status.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .directory
      default: .other
      }
    self.init(
      kind: kind, mode: status.st_mode & 0o7777, owner: status.st_uid, size: Int(status.st_size),
      modified: Int64(status.st_mtim.tv_sec))
  }
}
