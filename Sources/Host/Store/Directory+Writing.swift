extension Directory {
  /// Writes the bytes to the file `name` atomically: after a loss of power it has either the old or the new content.
  ///
  /// - Parameters:
  ///   - temporary: the name of the file until it is complete; a file of that name from an interrupted write is
  ///     removed.
  ///   - beforeRename: performs other renames that belong to the same step.
  func replace(
    _ name: String, with bytes: [UInt8], temporary: String,
    beforeRename: () throws(StoreError) -> Void = { () throws(StoreError) in }
  ) throws(StoreError) {
    if try status(of: temporary) != nil { try unlink(temporary) }
    let file = try create(temporary)
    do throws(StoreError) {
      try file.write(bytes, at: 0)
      try file.sync()
      try beforeRename()
      try rename(temporary, to: name)
    } catch {
      try? unlink(temporary)
      throw error
    }
    try sync()
  }

  /// Overwrites the file's content with zeros, synchronises it to the disk, and removes the file. The directory is not
  /// synchronised.
  ///
  /// A file that cannot be overwritten, for example on a full disk, is still removed, and the error is thrown.
  func erase(_ name: String) throws(StoreError) {
    do throws(StoreError) {
      try openForOverwriting(name).overwrite()
    } catch {
      try unlink(name)
      throw error
    }
    try unlink(name)
  }

  /// The whole file; nil if it does not exist; `tooLarge` if it has more than `limit` bytes.
  func contents(of name: String, limit: Int) throws(StoreError) -> [UInt8]? {
    guard let status = try status(of: name) else { return nil }
    let isLarge = status.kind == .file && status.size > limit
    let bytes = isLarge ? [] : try open(name).read(atMost: limit + 1)
    guard !isLarge, bytes.count <= limit else {
      throw StoreError(.tooLarge, "\(path(of: name)) has more than \(limit) bytes. It is not a file of this service.")
    }
    return bytes
  }

  /// Opens a directory in this one, and creates it if necessary.
  func openDirectory(making name: String) throws(StoreError) -> any Directory {
    if try status(of: name) == nil {
      do throws(StoreError) {
        try makeDirectory(name)
      } catch {
        // A part of the service that starts at the same time may have created it.
        guard error.reason == .exists else { throw error }
      }
      try sync()
    }
    return try openDirectory(name)
  }
}

extension OpenFile {
  /// Overwrites the whole file with zeros and synchronises it to the disk.
  func overwrite() throws(StoreError) {
    let size = try status().size
    let portion = 1 << 20
    for offset in stride(from: 0, to: size, by: portion) {
      try write([UInt8](repeating: 0, count: min(portion, size - offset)), at: offset)
    }
    try sync()
  }
}
