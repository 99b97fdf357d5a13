import Bytes
import Common

extension RecordSpool {
  /// Reads and decrypts the records, the earliest first. An unreadable file does not prevent others from being read: it
  /// is listed among the problems and, if it is permanently damaged, renamed.
  ///
  /// - Parameters:
  ///   - known: records to skip.
  ///   - room: maximum number of records to read, and maximum bytes of their files; all records after the first one
  ///     beyond a limit are not read.
  ///   - decode: parses a record. An error means that the file is damaged; `badValue("version")` means that another
  ///     release wrote it.
  /// - Throws: the error of the disk if the names cannot be listed.
  public func list<Value: Sendable>(
    except known: Set<SpoolID> = [], room: (count: Int, bytes: Int) = (.max, .max),
    decode: (SpoolRecord) throws(WireError) -> Value
  ) throws(StoreError) -> SpoolContents<Value> {
    try state.withLock { (state) throws(StoreError) in
      var contents = SpoolContents<Value>()
      var room = room
      for id in try survey(&state) where !known.contains(id) {
        guard let held = state.held[id] else { continue }
        // A file with another key or of another release does not become readable by another attempt.
        if let error = held.problem, !SpoolProblem(name: held.name.text, error: error).isPassing {
          contents.problems.append(SpoolProblem(name: held.name.text, error: error))
          continue
        }
        // A file larger than the spool's limit is a problem, which is detected without reading it.
        let fits = held.size <= room.bytes || held.size > limits.maximumBytes
        guard contents.withoutRoom == 0, room.count > 0, fits else {
          contents.withoutRoom += 1
          continue
        }
        do throws(StoreError) {
          let (record, size) = try read(held.name)
          let value = try open(held.name) { () throws(SpoolFile.Failure) in
            do throws(WireError) { return try decode(record) } catch { throw SpoolFile.Failure(error) }
          }
          state.held[id] = Held(name: held.name, size: size, received: record.received)
          contents.entries.append(
            .init(id: id, received: record.received, mark: record.mark, value: value, size: size))
          room.count -= 1
          room.bytes -= size
        } catch {
          contents.problems.append(SpoolProblem(name: held.name.text, error: error))
          state.held[id]?.problem = error
          if error.reason == .damaged, setAside(held.name) { state.held[id] = nil }
        }
      }
      contents.damaged = eraseDamaged { _ in false }
      return contents
    }
  }

  /// Lists the files, and forgets files that no longer exist.
  ///
  /// - Returns: the records, the earliest first.
  private func survey(_ state: inout State) throws(StoreError) -> [SpoolID] {
    let found = recordFiles(among: try directory.names())
    for (id, name) in found where state.held[id]?.name != name {
      if state.held[id] == nil { state.held[id] = held(name) } else { state.held[id]?.name = name }
    }
    state.held = state.held.filter { found[$0.key] != nil }
    return state.held.sorted { ($0.value.received, $0.key) < ($1.value.received, $1.key) }.map(\.key)
  }

  /// The files with records. If two files belong to one record, the one with the greater mark counts.
  private func recordFiles(among names: [String]) -> [SpoolID: SpoolFileName] {
    let names = names.compactMap(SpoolFileName.init).filter(\.holdsRecord)
    return Dictionary(names.map { ($0.id, $0) }, uniquingKeysWith: { $0.text > $1.text ? $0 : $1 })
  }

  /// Erases duplicates. A loss of power after a disk failure may leave two files of one record with different marks.
  /// The complete file with the greatest mark stays, because only an existing record is marked.
  ///
  /// - Returns: whether there were duplicates.
  private func eraseDoubles(among names: [String]) -> Bool {
    let records = names.compactMap(SpoolFileName.init).filter { if case .record = $0 { true } else { false } }
    let doubles = Dictionary(grouping: records, by: \.id).values.filter { $0.count > 1 }
    for files in doubles {
      let files = files.sorted { $0.mark > $1.mark }
      let kept = files.first { (try? read($0)) != nil } ?? files[0]
      for file in files where file != kept {
        // A file that cannot be erased now is erased with the record, or at the next start.
        try? directory.rename(file.text, to: file.whileErased.text)
        try? directory.sync()
        try? directory.erase(file.whileErased.text)
      }
    }
    return !doubles.isEmpty
  }

  func read(_ name: SpoolFileName) throws(StoreError) -> (SpoolRecord, size: Int) {
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try directory.contents(of: name.text, limit: limits.maximumBytes) ?? []
    } catch {
      throw error.reason == .wrongKind ? StoreError(.damaged, error.sentence) : error
    }
    return try open(name) { () throws(SpoolFile.Failure) in
      (try SpoolFile.open(bytes, id: name.id, mark: name.mark, key: key), bytes.count)
    }
  }

  /// Opens a file, and converts a failure to an error with instructions for an administrator.
  private func open<Value>(
    _ name: SpoolFileName, _ body: () throws(SpoolFile.Failure) -> Value
  ) throws(StoreError) -> Value {
    let path = PrintableText.clean(directory.path(of: name.text))
    do throws(SpoolFile.Failure) {
      return try body()
    } catch {
      switch error {
      case .damaged(let what):
        throw StoreError(
          .damaged,
          "\(path) is damaged: \(what). It is stored as \(name.whenDamaged.text); remove that file.")
      case .otherKey:
        throw StoreError(
          .keyMissing,
          "\(path) is encrypted with a different key. Restore that key (\(SpoolKey.places)), or remove the file.")
      case .otherVersion: throw otherRelease(name)
      }
    }
  }

  private func otherRelease(_ name: SpoolFileName) -> StoreError {
    let path = PrintableText.clean(directory.path(of: name.text))
    return StoreError(
      .otherRelease,
      "\(path) was written by another release. Install that release, or remove the file.")
  }

  /// Completes operations that were interrupted before the start, and lists the records.
  func scan() throws(StoreError) {
    var hasUnfinished = false
    var names = try directory.names()
    for name in names.compactMap(SpoolFileName.init) {
      switch name {
      case .new, .erased:
        // A file that cannot be erased now is erased at the next start; no operation depends on it.
        try? directory.erase(name.text)
        hasUnfinished = true
      case .record, .damaged, .otherRelease: break
      }
    }
    if eraseDoubles(among: names) {
      hasUnfinished = true
      names = try directory.names()
    }
    if hasUnfinished { try? directory.sync() }
    let found = recordFiles(among: names).mapValues(held)
    state.withLock { $0.held = found }
  }

  /// The size and date of a file, without reading all of it. The date is the one in the file or, if that cannot be
  /// read, the modification time.
  private func held(_ name: SpoolFileName) -> Held {
    var held = Held(name: name, size: 0, received: .max)
    if case .otherRelease = name { held.problem = otherRelease(name) }
    guard let status = try? directory.status(of: name.text) else { return held }
    (held.size, held.received) = (status.size, status.modified)
    guard let start = try? directory.open(name.text).read(atMost: SpoolHeader.size) else { return held }
    var reader = ByteReader(start)
    if let header = try? SpoolHeader(reading: &reader) { held.received = header.received }
    return held
  }

  private func setAside(_ name: SpoolFileName) -> Bool {
    do throws(StoreError) {
      try directory.rename(name.text, to: name.whenDamaged.text)
    } catch {
      return false
    }
    try? directory.sync()
    return true
  }

  /// Erases damaged files beyond the limit, and those for whose modification time `isOld` returns true.
  ///
  /// - Returns: number of damaged files afterwards.
  @discardableResult
  func eraseDamaged(where isOld: (Int64) -> Bool) -> Int {
    guard let names = try? directory.names() else { return 0 }
    let damaged = names.filter { if case .damaged? = SpoolFileName($0) { true } else { false } }
      .map { (name: $0, modified: (try? directory.status(of: $0)?.modified) ?? 0) }
      .sorted { ($0.modified, $0.name) < ($1.modified, $1.name) }
    let tooMany = max(0, damaged.count - limits.keptDamaged)
    let doomed = damaged.prefix(tooMany) + damaged.dropFirst(tooMany).filter { isOld($0.modified) }
    guard !doomed.isEmpty else { return damaged.count }
    for file in doomed { try? directory.erase(file.name) }
    try? directory.sync()
    return damaged.count - doomed.count
  }
}
