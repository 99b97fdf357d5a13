extension Target {
  /// The engine of a mesh node as a whole: bytes and time in.
  static let mesh = [
    Target(
      name: "mesh", seeds: { MeshStand.seeds }, goals: MeshStand.goals,
      play: { bytes in
        var stand = MeshStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
    // The same with dialects: the first byte says which.
    Target(
      name: "mesh-dialects", seeds: { MeshStand.seedSeeds }, goals: MeshStand.seedGoals,
      play: { bytes in
        var script = Script(bytes)
        let choice = script.byte()
        var stand = MeshStand(dialects: [choice & 1 == 0 ? .live : .seed, choice & 2 == 0 ? .live : .seed])
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
  ]
}
