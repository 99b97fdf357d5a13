import Bytes
import Common

extension CredentialSpool {
  /// Reads and decrypts everything there is. A file that cannot be read keeps no other from being read: it is named
  /// among the problems and, if it is damaged for good, renamed.
  ///
  /// - Throws: what the disk says when even the names cannot be read.
  public func list() throws(StoreError) -> SpoolContents {
    try state.withLock { (state) throws(StoreError) in
      var contents = SpoolContents()
      let names = try directory.names().sorted()
      state.held = [:]
      for name in names {
        guard let id = Name.id(name, ending: Name.keptEnding) else { continue }
        do throws(StoreError) {
          let (entry, size) = try read(name, id)
          state.held[id] = Held(size: size, received: entry.received)
          contents.credentials.append(.init(id: id, entry: entry))
        } catch {
          contents.problems.append(.init(name: name, error: error))
          if error.reason == .damaged { setAside(name) } else { state.held[id] = held(name) }
        }
      }
      eraseDamaged { _ in false }
      contents.credentials.sort { ($0.entry.received, $0.id) < ($1.entry.received, $1.id) }
      return contents
    }
  }

  func read(_ name: String, _ id: SpoolID) throws(StoreError) -> (SpoolEntry, size: Int) {
    let path = PrintableText.clean(directory.path(of: name))
    do throws(StoreError) {
      let bytes = try directory.contents(of: name, limit: limits.maximumBytes) ?? []
      do throws(SpoolFile.Failure) {
        return (try SpoolFile.open(bytes, id: id, key: key), bytes.count)
      } catch {
        switch error {
        case .damaged(let what):
          throw StoreError(.damaged, "\(path) is damaged: \(what). It is kept as \(name).damaged.")
        case .otherKey:
          throw StoreError(
            .keyMissing,
            "\(path) was kept under another key: bring that one back (\(SpoolKey.fileName) in the state directory, or "
              + "the unit's credential \(SpoolKey.credentialName)), or remove the file.")
        case .otherVersion:
          throw StoreError(.tooNew, "\(path) was written by another release. Install that one, or remove the file.")
        }
      }
    } catch {
      guard error.reason == .diskFailed || error.reason == .wrongKind else { throw error }
      throw StoreError(.damaged, error.sentence)
    }
  }

  /// Finishes what was begun before the start, and finds what is held.
  func scan() throws(StoreError) {
    var unfinished = false
    var found: [SpoolID: Held] = [:]
    for name in try directory.names() {
      if let id = Name.id(name, ending: Name.keptEnding) {
        found[id] = held(name)
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

  private func setAside(_ name: String) {
    try? directory.rename(name, to: Name.damaged(name))
    try? directory.sync()
  }

  /// Erases the damaged files that are too many, and those whose time of writing `isOld`.
  func eraseDamaged(where isOld: (Int64) -> Bool) {
    guard let names = try? directory.names() else { return }
    let damaged = names.filter { Name.id($0, ending: Name.damagedEnding) != nil }
      .map { (name: $0, modified: (try? directory.status(of: $0)?.modified) ?? 0) }
      .sorted { ($0.modified, $0.name) < ($1.modified, $1.name) }
    let tooMany = max(0, damaged.count - limits.keptDamaged)
    let doomed = damaged.prefix(tooMany) + damaged.dropFirst(tooMany).filter { isOld($0.modified) }
    guard !doomed.isEmpty else { return }
    for file in doomed { try? directory.erase(file.name) }
    try? directory.sync()
  }
}
