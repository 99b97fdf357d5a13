import Bytes
import Common

extension CredentialSpool {
  /// Reads and decrypts what there is, the earliest first. A file that cannot be read keeps no other from being read: it is
  /// named among the problems and, if it is damaged for good, renamed.
  ///
  /// - Parameters:
  ///   - known: is not read again.
  ///   - room: no more are read than so many, and than so many bytes of files; what comes after the first that does not fit
  ///     is left.
  /// - Throws: what the disk says when even the names cannot be read.
  public func list(
    except known: Set<SpoolID> = [], room: (count: Int, bytes: Int) = (.max, .max)
  ) throws(StoreError) -> SpoolContents {
    try state.withLock { (state) throws(StoreError) in
      var contents = SpoolContents()
      var room = room
      for (name, id) in try survey(&state) where !known.contains(id) {
        guard var held = state.held[id] else { continue }
        // Another key or another release's file does not come right by being read again.
        if let problem = held.problem, !Self.isPassing(problem) {
          contents.add(name, problem)
          continue
        }
        // One that is too large for any room is a problem, and is found to be one without being read.
        let fits = held.size <= room.bytes || held.size > limits.maximumBytes
        guard contents.left == 0, room.count > 0, fits else {
          contents.left += 1
          continue
        }
        do throws(StoreError) {
          let (entry, size) = try read(name, id)
          held = Held(size: size, received: entry.received, isAccepted: held.isAccepted)
          state.held[id] = held
          contents.credentials.append(.init(id: id, entry: entry, isAccepted: held.isAccepted))
          room.count -= 1
          room.bytes -= size
        } catch {
          contents.add(name, error)
          state.held[id]?.problem = error
          if error.reason == .damaged, setAside(name) { state.held[id] = nil }
        }
      }
      contents.damaged = eraseDamaged { _ in false }
      return contents
    }
  }

  /// Finds the files, and forgets those that somebody took away; the earliest come first.
  private func survey(_ state: inout State) throws(StoreError) -> [(name: String, id: SpoolID)] {
    var found: [(name: String, id: SpoolID)] = []
    for name in try directory.names() {
      guard let (id, isAccepted) = Name.credential(name) else { continue }
      found.append((name, id))
      if state.held[id] == nil { state.held[id] = held(name) }
      state.held[id]?.isAccepted = isAccepted
    }
    let ids = Set(found.map(\.id))
    state.held = state.held.filter { ids.contains($0.key) }
    let dates = state.held.mapValues(\.received)
    return found.sorted { (dates[$0.id] ?? 0, $0.id) < (dates[$1.id] ?? 0, $1.id) }
  }

  static func isPassing(_ error: StoreError) -> Bool {
    switch error.reason {
    case .damaged, .keyMissing, .tooNew, .tooLarge, .wrongKind: false
    default: true
    }
  }

  func read(_ name: String, _ id: SpoolID) throws(StoreError) -> (SpoolEntry, size: Int) {
    let path = PrintableText.clean(directory.path(of: name))
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try directory.contents(of: name, limit: limits.maximumBytes) ?? []
    } catch {
      throw error.reason == .wrongKind ? StoreError(.damaged, error.sentence) : error
    }
    do throws(SpoolFile.Failure) {
      return (try SpoolFile.open(bytes, id: id, key: key), bytes.count)
    } catch {
      switch error {
      case .damaged(let what):
        throw StoreError(.damaged, "\(path) is damaged: \(what). It is kept as \(name).damaged; remove it.")
      case .otherKey:
        throw StoreError(
          .keyMissing,
          "\(path) was kept under another key: bring that one back (\(SpoolKey.fileName) in the state directory, or "
            + "the unit's credential \(SpoolKey.credentialName)), or remove the file.")
      case .otherVersion:
        throw StoreError(.tooNew, "\(path) was written by another release. Install that one, or remove the file.")
      }
    }
  }

  /// Finishes what was begun before the start, and finds what is held.
  func scan() throws(StoreError) {
    var unfinished = false
    var found: [SpoolID: Held] = [:]
    for name in try directory.names() {
      if let (id, isAccepted) = Name.credential(name) {
        found[id] = held(name)
        found[id]?.isAccepted = isAccepted
      } else if Name.id(name, ending: ".new") != nil || Name.id(name, ending: ".erased") != nil {
        // What cannot be erased now is tried again at the next start; it keeps nothing from going on.
        try? directory.erase(name)
        unfinished = true
      }
    }
    if unfinished { try? directory.sync() }
    state.withLock { [found] in $0.held = found }
  }

  /// What a file takes, without reading all of it. It gives its time, or the disk does.
  private func held(_ name: String) -> Held {
    guard let status = try? directory.status(of: name) else { return Held(size: 0, received: .max) }
    guard let start = try? directory.open(name).read(atMost: SpoolHeader.size) else {
      return Held(size: status.size, received: status.modified)
    }
    var reader = ByteReader(start)
    let header = try? SpoolHeader(reading: &reader)
    return Held(size: status.size, received: header?.received ?? status.modified)
  }

  private func setAside(_ name: String) -> Bool {
    do throws(StoreError) {
      try directory.rename(name, to: Name.damaged(name))
    } catch {
      return false
    }
    try? directory.sync()
    return true
  }

  /// Erases the damaged files that are too many, and those whose time of writing `isOld`.
  ///
  /// - Returns: how many are left.
  @discardableResult
  func eraseDamaged(where isOld: (Int64) -> Bool) -> Int {
    guard let names = try? directory.names() else { return 0 }
    let damaged = names.filter(Name.isDamaged)
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

extension SpoolContents {
  fileprivate mutating func add(_ name: String, _ error: StoreError) {
    problems.append(.init(name: name, error: error, isPassing: CredentialSpool.isPassing(error)))
  }
}
