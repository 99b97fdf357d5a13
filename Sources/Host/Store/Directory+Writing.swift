extension Directory {
  /// Puts the bytes into the file `name` such that after a loss of power it is as before or as it shall be, never
  /// between.
  ///
  /// - Parameters:
  ///   - temporary: the name of the file until it is whole; a file of that name from an interrupted write is removed.
  ///   - beforeRename: what else has to change its name in the same step.
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

  /// Overwrites the file's content with zeros, all the way to the disk, and removes the file. The directory is not synced.
  ///
  /// A file that cannot be overwritten is removed all the same (a full disk may refuse to overwrite), and the reason is thrown.
  func erase(_ name: String) throws(StoreError) {
    do throws(StoreError) {
      try openForOverwriting(name).overwrite()
    } catch {
      try unlink(name)
      throw error
    }
    try unlink(name)
  }

  /// The whole file, nil if there is none; `tooLarge` if it has more than `limit` bytes.
  func contents(of name: String, limit: Int) throws(StoreError) -> [UInt8]? {
    guard let status = try status(of: name) else { return nil }
    let isLarge = status.kind == .file && status.size > limit
    let bytes = isLarge ? [] : try open(name).read(atMost: limit + 1)
    guard !isLarge, bytes.count <= limit else {
      throw StoreError(.tooLarge, "\(path(of: name)) has more than \(limit) bytes. It is not a file of this service.")
    }
    return bytes
  }

  /// Opens a directory in this one, which is made if it is not there.
  func openDirectory(making name: String) throws(StoreError) -> any Directory {
    if try status(of: name) == nil {
      do throws(StoreError) {
        try makeDirectory(name)
      } catch {
        // Another part of the service, which starts at the same time, may have made it meanwhile.
        guard error.reason == .exists else { throw error }
      }
      try sync()
    }
    return try openDirectory(name)
  }
}

extension OpenFile {
  /// Writes zeros over all of it, all the way to the disk.
  func overwrite() throws(StoreError) {
    let size = try status().size
    let portion = 1 << 20
    for offset in stride(from: 0, to: size, by: portion) {
      try write([UInt8](repeating: 0, count: min(portion, size - offset)), at: offset)
    }
    try sync()
  }
}
