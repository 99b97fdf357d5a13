import Bitchat

/// Order of eviction at the limits.
extension MeshLedger {
  func limit(of shelf: Shelf) -> Shares.Limit {
    (shelf.limit.count, shelf == .files ? fileBytes : shelf.limit.bytes)
  }

  /// - Parameter newest: record that was just written. A message stays, because its sender gets a receipt.
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

  /// Oldest message of the senders that are evicted first.
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
    // If a peer exceeds its share by its newest message alone, another message is evicted.
    return oldest { first.contains($0.origin, via: $0.via) } ?? oldest { _ in true }
  }

  /// The oldest packet of the senders whose packets are evicted first.
  private func packetToGo() -> Key? {
    let first = shares[.gossip, default: Shares()].firstToGo(within: limit(of: .gossip))
    let rows = shelves[.gossip] ?? [:]
    let ofFirst = rows.filter { first.contains($0.value.origin, via: $0.value.via) }
    return (ofFirst.isEmpty ? rows : ofFirst).min { goesBefore($0, $1) }?.key
  }

  /// Selects the file to evict. Public files go before private ones, and files of favourite and verified peers last.
  /// Among these, files of a sender with more than a quarter go first, then the oldest.
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

  /// Whether the user has chosen the record, or the peer of a pin.
  private func isChosen(_ key: Key, _ row: Row) -> Bool {
    guard case .pin(let peer) = key else { return row.isChosen }
    return shelves[.peers]?[.peer(peer)]?.isChosen ?? false
  }

  private func isTrusted(_ peer: PeerID) -> Bool { shelves[.peers]?[.peer(peer)]?.isTrusted ?? false }
}
