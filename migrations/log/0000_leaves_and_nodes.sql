CREATE TABLE `leaves` (
	`index` integer PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`seq` integer NOT NULL,
	`hash` text NOT NULL,
	`call` text NOT NULL,
	`agent` text NOT NULL,
	`tool` text NOT NULL,
	`state` text NOT NULL,
	`at` integer NOT NULL,
	`took` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `leaves_source` ON `leaves` (`run`,`seq`);--> statement-breakpoint
CREATE TABLE `nodes` (
	`level` integer NOT NULL,
	`index` integer NOT NULL,
	`hash` text NOT NULL,
	PRIMARY KEY(`level`, `index`)
);
