import Bitchat

/// What goes first where there is too much.
extension MeshLedger {
  func limit(of shelf: Shelf) -> Shares.Limit {
    (shelf.limit.count, shelf == .files ? fileBytes : shelf.limit.bytes)
  }

  /// - Parameter newest: what was written just now. A message stays then, for its sender is told that it is kept.
  func firstToGo(from shelf: Shelf, sparing newest: Key?) -> Key? {
    switch shelf {
    case .publicMessages, .privateMessages: messageToGo(from: shelf, sparing: newest)
    case .files: fileToGo()
    case .gossip: packetToGo()
    case .own, .pins, .peers, .outgoing, .carried, .deletedFiles:
      shelves[shelf]?.min(by: { goesBefore($0, $1) })?.key
    }
  }

  private func goesBefore(_ left: (key: Key, value: Row), _ right: (key: Key, value: Row)) -> Bool {
    let (isLeftChosen, isRightChosen) = (isChosen(left.key, left.value), isChosen(right.key, right.value))
    if isLeftChosen != isRightChosen { return isRightChosen }
    return (left.value.order, left.value.id) < (right.value.order, right.value.id)
  }

  /// The oldest message of those whose messages go first.
  private func messageToGo(from shelf: Shelf, sparing newest: Key?) -> Key? {
    let rows = shelves[shelf] ?? [:]
    let first = shares[shelf, default: Shares()].firstToGo(within: limit(of: shelf)) { isTrusted($0) }
    func oldest(where isMeant: (Row) -> Bool) -> Key? {
      var found: (key: Key, order: UInt64)?
      for (key, row) in rows where row.order < found?.order ?? UInt64.max && key != newest && isMeant(row) {
        found = (key, row.order)
      }
      return found?.key
    }
    // Where a peer has too much by its newest message alone, that one stays.
    return oldest { first.contains($0.origin, via: $0.via) } ?? oldest { _ in true }
  }

  /// The oldest packet of the senders whose packets are evicted first.
  private func packetToGo() -> Key? {
    let first = shares[.gossip, default: Shares()].firstToGo(within: limit(of: .gossip))
    let rows = shelves[.gossip] ?? [:]
    let ofFirst = rows.filter { first.contains($0.value.origin, via: $0.value.via) }
    return (ofFirst.isEmpty ? rows : ofFirst).min { goesBefore($0, $1) }?.key
  }

  /// Public files go before private ones, and those of favourite and verified peers last; among them, those of a sender who takes
  /// more than a quarter, and the oldest.
  private func fileToGo() -> Key? {
    let (limit, shares) = (limit(of: .files), shares[.files, default: Shares()])
    func standing(_ row: Row) -> (dearness: Int, share: Int, order: UInt64) {
      guard let file = row.file, let sender = row.origin else { return (0, 0, row.order) }
      return (
        isTrusted(sender) ? 2 : file.isPrivate ? 1 : 0, shares.isGreedy(sender, within: limit) ? 0 : 1, row.order
      )
    }
    return shelves[.files]?.min(by: { standing($0.value) < standing($1.value) })?.key
  }

  /// A pin is as dear as its peer.
  private func isChosen(_ key: Key, _ row: Row) -> Bool {
    guard case .pin(let peer) = key else { return row.isChosen }
    return shelves[.peers]?[.peer(peer)]?.isChosen ?? false
  }

  private func isTrusted(_ peer: PeerID) -> Bool { shelves[.peers]?[.peer(peer)]?.isTrusted ?? false }
}
